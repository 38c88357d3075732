-- app: child-inserted
-- why: Nobody removes parents.
-- hire: emp_dept_fkey yes
CREATE TABLE dept (id int PRIMARY KEY);
CREATE TABLE emp (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), dept int NOT NULL REFERENCES dept (id));
CREATE PROCEDURE hire(d int) LANGUAGE SQL BEGIN ATOMIC INSERT INTO emp (dept) VALUES (d); END;
-- app: child-inserted-parent-removed
-- why: One branch removes the empty parent, the other hires into it.
-- hire: emp_dept_fkey no
-- close: emp_dept_fkey no
CREATE TABLE dept (id int PRIMARY KEY);
CREATE TABLE emp (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), dept int NOT NULL REFERENCES dept (id));
CREATE PROCEDURE hire(d int) LANGUAGE SQL BEGIN ATOMIC INSERT INTO emp (dept) VALUES (d); END;
CREATE PROCEDURE close(d int) LANGUAGE SQL BEGIN ATOMIC DELETE FROM dept WHERE id = d; END;
-- app: child-inserted-parent-cascades
-- why: Whoever refers to a parent that goes, goes with it, wherever he came from.
-- hire: emp_dept_fkey yes
-- close: emp_dept_fkey yes
CREATE TABLE dept (id int PRIMARY KEY);
CREATE TABLE emp (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), dept int NOT NULL REFERENCES dept (id) ON DELETE CASCADE);
CREATE PROCEDURE hire(d int) LANGUAGE SQL BEGIN ATOMIC INSERT INTO emp (dept) VALUES (d); END;
CREATE PROCEDURE close(d int) LANGUAGE SQL BEGIN ATOMIC DELETE FROM dept WHERE id = d; END;
-- app: child-moved-parent-removed
-- why: One branch moves a child to the parent that the other removes.
-- move: emp_dept_fkey no
-- close: emp_dept_fkey no
CREATE TABLE dept (id int PRIMARY KEY);
CREATE TABLE emp (id int PRIMARY KEY, dept int NOT NULL REFERENCES dept (id));
CREATE PROCEDURE move(p int, d int) LANGUAGE SQL BEGIN ATOMIC UPDATE emp SET dept = d WHERE id = p; END;
CREATE PROCEDURE close(d int) LANGUAGE SQL BEGIN ATOMIC DELETE FROM dept WHERE id = d; END;
-- app: child-moved
-- why: Nobody removes parents.
-- move: emp_dept_fkey yes
CREATE TABLE dept (id int PRIMARY KEY);
CREATE TABLE emp (id int PRIMARY KEY, dept int NOT NULL REFERENCES dept (id));
CREATE PROCEDURE move(p int, d int) LANGUAGE SQL BEGIN ATOMIC UPDATE emp SET dept = d WHERE id = p; END;
-- app: child-removed
-- why: A child that is gone refers to nobody.
-- fire: emp_dept_fkey yes
CREATE TABLE dept (id int PRIMARY KEY);
CREATE TABLE emp (id int PRIMARY KEY, dept int NOT NULL REFERENCES dept (id));
CREATE PROCEDURE fire(p int) LANGUAGE SQL BEGIN ATOMIC DELETE FROM emp WHERE id = p; END;
-- app: child-without-parent
-- why: NULL refers to nobody, though parents go.
-- hire: emp_dept_fkey yes
CREATE TABLE dept (id int PRIMARY KEY);
CREATE TABLE emp (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), dept int REFERENCES dept (id));
CREATE PROCEDURE hire() LANGUAGE SQL BEGIN ATOMIC INSERT INTO emp (dept) VALUES (NULL); END;
CREATE PROCEDURE close(d int) LANGUAGE SQL BEGIN ATOMIC DELETE FROM dept WHERE id = d; END;
-- app: parent-inserted
-- why: One more parent breaks nothing.
-- open_dept: emp_dept_fkey yes
CREATE TABLE dept (id int PRIMARY KEY);
CREATE TABLE emp (id int PRIMARY KEY, dept int NOT NULL REFERENCES dept (id));
CREATE PROCEDURE open_dept(d int) LANGUAGE SQL BEGIN ATOMIC INSERT INTO dept VALUES (d); END;
-- app: parent-and-child-together
-- why: The child comes with its parent, and nobody removes one.
-- found: emp_dept_fkey yes
CREATE TABLE dept (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY);
CREATE TABLE emp (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, dept bigint NOT NULL REFERENCES dept (id));
CREATE PROCEDURE found() LANGUAGE plpgsql AS $$ DECLARE k bigint; BEGIN
  INSERT INTO dept DEFAULT VALUES RETURNING id INTO k; INSERT INTO emp (dept) VALUES (k); END $$;
-- app: parent-changes-another-column
-- why: Nobody refers to the name.
-- rename: emp_dept_fkey yes
-- hire: emp_dept_fkey yes
CREATE TABLE dept (id int PRIMARY KEY, name text);
CREATE TABLE emp (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), dept int NOT NULL REFERENCES dept (id));
CREATE PROCEDURE rename(d int, q text) LANGUAGE SQL BEGIN ATOMIC UPDATE dept SET name = q WHERE id = d; END;
CREATE PROCEDURE hire(d int) LANGUAGE SQL BEGIN ATOMIC INSERT INTO emp (dept) VALUES (d); END;
-- app: parent-changes-its-key
-- why: One branch gives the parent another code, the other refers to the old one.
-- recode: emp_dept_fkey no
-- hire: emp_dept_fkey no
CREATE TABLE dept (id int PRIMARY KEY, code text NOT NULL UNIQUE);
CREATE TABLE emp (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), dept text NOT NULL REFERENCES dept (code));
CREATE PROCEDURE recode(d int, q text) LANGUAGE SQL BEGIN ATOMIC UPDATE dept SET code = q WHERE id = d; END;
CREATE PROCEDURE hire(d text) LANGUAGE SQL BEGIN ATOMIC INSERT INTO emp (dept) VALUES (d); END;
-- app: grandchild-inserted-child-removed
-- why: The child goes in one branch and gets a child of its own in the other.
-- add_task: task_emp_fkey no
-- fire: task_emp_fkey no
CREATE TABLE emp (id int PRIMARY KEY);
CREATE TABLE task (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), emp int NOT NULL REFERENCES emp (id));
CREATE PROCEDURE add_task(e int) LANGUAGE SQL BEGIN ATOMIC INSERT INTO task (emp) VALUES (e); END;
CREATE PROCEDURE fire(e int) LANGUAGE SQL BEGIN ATOMIC DELETE FROM emp WHERE id = e; END;
-- app: cascade-meets-restrict
-- why: The parent's end takes its children along; another branch gives one of them a task that must not lose it.
-- close: task_emp_fkey no
-- add_task: task_emp_fkey no
CREATE TABLE dept (id int PRIMARY KEY);
CREATE TABLE emp (id int PRIMARY KEY, dept int NOT NULL REFERENCES dept (id) ON DELETE CASCADE);
CREATE TABLE task (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), emp int NOT NULL REFERENCES emp (id));
CREATE PROCEDURE close(d int) LANGUAGE SQL BEGIN ATOMIC DELETE FROM dept WHERE id = d; END;
CREATE PROCEDURE add_task(e int) LANGUAGE SQL BEGIN ATOMIC INSERT INTO task (emp) VALUES (e); END;
-- app: tree-grows
-- why: Nobody removes nodes.
-- grow: node_parent_fkey yes
CREATE TABLE node (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, parent bigint REFERENCES node (id));
CREATE PROCEDURE grow(p bigint) LANGUAGE SQL BEGIN ATOMIC INSERT INTO node (parent) VALUES (p); END;
-- app: tree-grows-and-loses-leaves
-- why: A leaf goes in one branch and gets a child in the other.
-- grow: node_parent_fkey no
-- prune: node_parent_fkey no
CREATE TABLE node (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, parent bigint REFERENCES node (id));
CREATE PROCEDURE grow(p bigint) LANGUAGE SQL BEGIN ATOMIC INSERT INTO node (parent) VALUES (p); END;
CREATE PROCEDURE prune(p bigint) LANGUAGE SQL BEGIN ATOMIC DELETE FROM node WHERE id = p; END;
-- app: two-parents-one-removed
-- why: Only one of the two references is to rows that go.
-- add: line_orders_fkey no
-- add: line_item_fkey yes
-- cancel: line_orders_fkey no
CREATE TABLE orders (id int PRIMARY KEY);
CREATE TABLE item (id int PRIMARY KEY);
CREATE TABLE line (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), orders int NOT NULL REFERENCES orders (id), item int NOT NULL REFERENCES item (id));
CREATE PROCEDURE add(o int, i int) LANGUAGE SQL BEGIN ATOMIC INSERT INTO line (orders, item) VALUES (o, i); END;
CREATE PROCEDURE cancel(o int) LANGUAGE SQL BEGIN ATOMIC DELETE FROM orders WHERE id = o; END;
-- app: children-removed-with-their-parent
-- why: The children that are seen go; the one that the other branch adds stays without a parent.
-- close: emp_dept_fkey no
-- hire: emp_dept_fkey no
CREATE TABLE dept (id int PRIMARY KEY);
CREATE TABLE emp (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), dept int NOT NULL REFERENCES dept (id));
CREATE PROCEDURE close(d int) LANGUAGE SQL BEGIN ATOMIC DELETE FROM emp WHERE dept = d; DELETE FROM dept WHERE id = d; END;
CREATE PROCEDURE hire(d int) LANGUAGE SQL BEGIN ATOMIC INSERT INTO emp (dept) VALUES (d); END;
-- app: parent-marked-instead-of-removed
-- why: A mark is no removal.
-- close: emp_dept_fkey yes
-- hire: emp_dept_fkey yes
CREATE TABLE dept (id int PRIMARY KEY, closed boolean NOT NULL DEFAULT false);
CREATE TABLE emp (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), dept int NOT NULL REFERENCES dept (id));
CREATE PROCEDURE close(d int) LANGUAGE SQL BEGIN ATOMIC UPDATE dept SET closed = true WHERE id = d; END;
CREATE PROCEDURE hire(d int) LANGUAGE SQL BEGIN ATOMIC INSERT INTO emp (dept) VALUES (d); END;
-- app: nobody-in-a-closed-department
-- why: One branch closes the empty department, the other hires into it.
-- close: none_in_closed no
-- hire: none_in_closed no
CREATE TABLE dept (id int PRIMARY KEY, closed boolean NOT NULL DEFAULT false);
CREATE TABLE emp (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), dept int NOT NULL REFERENCES dept (id));
CREATE ASSERTION none_in_closed CHECK (NOT EXISTS (SELECT 1 FROM dept d JOIN emp e ON e.dept = d.id WHERE d.closed));
CREATE PROCEDURE close(d int) LANGUAGE SQL BEGIN ATOMIC UPDATE dept SET closed = true WHERE id = d; END;
CREATE PROCEDURE hire(d int) LANGUAGE SQL BEGIN ATOMIC INSERT INTO emp (dept) VALUES (d); END;
-- app: composite-reference
-- why: The parent with both values goes in one branch and is referred to in the other.
-- add: seat_row_fkey no
-- scrap: seat_row_fkey no
CREATE TABLE line_row (hall int, no int, PRIMARY KEY (hall, no));
CREATE TABLE seat (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), hall int NOT NULL, no int NOT NULL, CONSTRAINT seat_row_fkey FOREIGN KEY (hall, no) REFERENCES line_row (hall, no));
CREATE PROCEDURE add(h int, n int) LANGUAGE SQL BEGIN ATOMIC INSERT INTO seat (hall, no) VALUES (h, n); END;
CREATE PROCEDURE scrap(h int, n int) LANGUAGE SQL BEGIN ATOMIC DELETE FROM line_row WHERE hall = h AND no = n; END;

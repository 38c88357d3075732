-- What a personnel office does. Loads unchanged in PostgreSQL 15.

-- Two offices that choose the same number at once: uniqueness of a chosen value needs a claim.
CREATE PROCEDURE hire_with_number(
    IN employee_id   bigint,
    IN employee_name text,
    IN department    bigint,
    IN first_salary  numeric,
    IN start_date    date
)
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO employees (id, name, department_id, salary, hired_on)
    VALUES (employee_id, employee_name, department, first_salary, start_date);

    UPDATE departments SET headcount = headcount + 1 WHERE id = department;
END;
$$;

-- The same with a number that the database chooses: it can always choose another one.
CREATE PROCEDURE hire(
    IN  employee_name text,
    IN  department    bigint,
    IN  first_salary  numeric,
    IN  start_date    date,
    OUT employee_id   bigint
)
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO employees (name, department_id, salary, hired_on)
    VALUES (employee_name, department, first_salary, start_date)
    RETURNING id INTO employee_id;

    UPDATE departments SET headcount = headcount + 1 WHERE id = department;
END;
$$;

-- Two raises, each below the bound, may be above it together.
CREATE PROCEDURE give_raise(IN employee_id bigint, IN amount numeric)
LANGUAGE plpgsql
AS $$
BEGIN
    IF amount <= 0 THEN
        RAISE EXCEPTION 'a raise of % is none', amount USING ERRCODE = '22023';
    END IF;
    UPDATE employees SET salary = salary + amount WHERE id = employee_id;
END;
$$;

-- A salary that is set, not changed, is valid whoever sets it last.
CREATE PROCEDURE agree_salary(IN employee_id bigint, IN new_salary numeric)
LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE employees SET salary = new_salary WHERE id = employee_id;
END;
$$;

-- Two transfers of one employee at once would count the departure twice.
CREATE PROCEDURE transfer(IN employee_id bigint, IN new_department bigint)
LANGUAGE plpgsql
AS $$
DECLARE
    old_department bigint;
BEGIN
    SELECT department_id INTO old_department FROM employees WHERE id = employee_id FOR UPDATE;
    IF FOUND THEN
        UPDATE employees SET department_id = new_department WHERE id = employee_id;
        UPDATE departments SET headcount = headcount - 1 WHERE id = old_department;
        UPDATE departments SET headcount = headcount + 1 WHERE id = new_department;
    END IF;
END;
$$;

CREATE PROCEDURE resign(IN employee_id bigint)
LANGUAGE plpgsql
AS $$
DECLARE
    old_department bigint;
BEGIN
    DELETE FROM employees WHERE id = employee_id RETURNING department_id INTO old_department;
    IF FOUND THEN
        UPDATE departments SET headcount = headcount - 1 WHERE id = old_department;
    END IF;
END;
$$;

-- The phone may outlive neither its employee nor a merge with the employee's departure.
CREATE PROCEDURE add_phone(IN employee bigint, IN phone_number text)
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO phones (employee_id, number) VALUES (employee, phone_number);
END;
$$;

CREATE PROCEDURE open_department(IN department bigint, IN department_name text)
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO departments (id, name) VALUES (department, department_name);
END;
$$;

-- Refused by the foreign key while somebody works there; someone may be hired there meanwhile.
CREATE PROCEDURE close_department(IN department bigint)
LANGUAGE plpgsql
AS $$
BEGIN
    DELETE FROM departments WHERE id = department;
END;
$$;

CREATE PROCEDURE department_report(
    IN  department    bigint,
    OUT people     bigint,
    OUT payroll    numeric
)
LANGUAGE plpgsql
AS $$
BEGIN
    SELECT count(*), coalesce(sum(salary), 0)
      INTO people, payroll
      FROM employees
     WHERE department_id = department;
END;
$$;

-- The constraints are in schema.sql; what they cannot say is here.

CREATE ASSERTION headcount_is_right CHECK (NOT EXISTS (
    SELECT 1
      FROM departments
     WHERE headcount <> (SELECT count(*) FROM employees WHERE department_id = departments.id)));

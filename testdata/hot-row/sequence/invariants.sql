CREATE ASSERTION numbers_reach_the_next CHECK (NOT EXISTS (
    SELECT 1
      FROM district
     WHERE next - 1 <> (SELECT coalesce(max(number), 0) FROM orders WHERE orders.district = district.id)));

CREATE ASSERTION numbers_have_no_gap CHECK (NOT EXISTS (
    SELECT 1
      FROM orders
     GROUP BY district
    HAVING count(*) <> max(number) - min(number) + 1));

CREATE ASSERTION stock_and_sales CHECK (NOT EXISTS (
    SELECT 1
      FROM stock
     WHERE begun - n <> (SELECT count(*) FROM sales WHERE item = stock.id)));

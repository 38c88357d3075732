CREATE ASSERTION total_of_lines CHECK (NOT EXISTS (
    SELECT 1 FROM orders o WHERE o.coupon_code IS NULL
      AND o.total <> (SELECT coalesce(sum(l.quantity * l.price), 0) FROM order_lines l WHERE l.order_id = o.id)));

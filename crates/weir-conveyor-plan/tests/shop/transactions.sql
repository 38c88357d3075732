-- transaction: add_to_cart(cart, item, quantity)
SELECT quantity FROM stock WHERE item = :item;
INSERT INTO cart_line VALUES (:cart, :item, :quantity);

-- transaction: show_cart(cart)
SELECT item, quantity FROM cart_line WHERE cart = :cart;

-- transaction: order_cart(cart, item, quantity)
SELECT item, quantity FROM cart_line WHERE cart = :cart;
UPDATE stock SET quantity = quantity - :quantity WHERE item = :item;
DELETE FROM cart_line WHERE cart = :cart;

-- transaction: list_shops()
SELECT id, name FROM shop;

-- transaction: write_log(line)
INSERT INTO log VALUES (now(), :line);

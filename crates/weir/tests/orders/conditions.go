package main

import (
	"database/sql"
	"fmt"
	"os"
	"time"
)

// Clause 3.3.2 for a warehouse: each gives differences, all of which are 0.
var conditions = []string{
	"SELECT sum(d_ytd) - max(w_ytd) diff FROM district, warehouse WHERE d_w_id = w_id AND w_id = $1 group by d_w_id",
	`SELECT POWER((d_next_o_id -1 - mo), 2) + POWER((d_next_o_id -1 - mno), 2) diff FROM district dis,
(SELECT o_d_id,max(o_id) mo FROM orders WHERE o_w_id= $1 GROUP BY o_d_id) q,
(select no_d_id,max(no_o_id) mno from new_order where no_w_id= $1 group by no_d_id) no
where d_w_id = $1 and q.o_d_id=dis.d_id and no.no_d_id=dis.d_id`,
	"SELECT max(no_o_id)-min(no_o_id)+1 - count(*) diff from new_order where no_w_id = $1 group by no_d_id",
	`SELECT count(*) FROM (SELECT o_d_id, SUM(o_ol_cnt) sm1, MAX(cn) as cn FROM orders,
(SELECT ol_d_id, COUNT(*) cn FROM order_line WHERE ol_w_id = $1 GROUP BY ol_d_id) ol
WHERE o_w_id = $1 AND ol_d_id=o_d_id GROUP BY o_d_id) t1 WHERE sm1<>cn`,
	`SELECT count(*) FROM orders LEFT JOIN new_order ON (no_w_id=o_w_id AND o_d_id=no_d_id AND o_id=no_o_id)
where o_w_id = $1 and ((o_carrier_id IS NULL and no_o_id IS NULL) OR (o_carrier_id IS NOT NULL and no_o_id IS NOT NULL))`,
	`SELECT COUNT(*) FROM (SELECT o_ol_cnt, order_line_count FROM orders
LEFT JOIN (SELECT ol_w_id, ol_d_id, ol_o_id, count(*) order_line_count FROM order_line GROUP BY ol_w_id, ol_d_id, ol_o_id
ORDER by ol_w_id, ol_d_id, ol_o_id) AS order_line
ON orders.o_w_id = order_line.ol_w_id AND orders.o_d_id = order_line.ol_d_id AND orders.o_id = order_line.ol_o_id
WHERE orders.o_w_id = $1) AS T WHERE T.o_ol_cnt != T.order_line_count`,
	`SELECT count(*) FROM orders, order_line WHERE o_id=ol_o_id AND o_d_id=ol_d_id AND ol_w_id=o_w_id AND o_w_id = $1
AND ((ol_delivery_d IS NULL and o_carrier_id IS NOT NULL) or (o_carrier_id IS NULL and ol_delivery_d IS NOT NULL ))`,
	`SELECT count(*) cn FROM (SELECT w_id,w_ytd,SUM(h_amount) sm FROM history,warehouse WHERE h_w_id=w_id and w_id = $1 GROUP BY w_id) t1
WHERE w_ytd<>sm`,
	`SELECT COUNT(*) FROM (select d_id,d_w_id,sum(d_ytd) s1 from district group by d_id,d_w_id) d,
(select h_d_id,h_w_id,sum(h_amount) s2 from history WHERE  h_w_id = $1 group by h_d_id, h_w_id) h
WHERE h_d_id=d_id AND d_w_id=h_w_id and d_w_id= $1 and s1<>s2`,
	`SELECT count(*) FROM (SELECT c.c_id, c.c_d_id, c.c_w_id, c.c_balance c1,
(SELECT sum(ol_amount) FROM orders, order_line WHERE OL_W_ID=O_W_ID AND OL_D_ID = O_D_ID AND OL_O_ID = O_ID AND OL_DELIVERY_D IS NOT NULL
AND O_W_ID=c.c_w_id AND O_D_ID=c.C_D_ID AND O_C_ID=c.C_ID) sm,
(SELECT sum(h_amount) from history WHERE H_C_W_ID=c.C_W_ID AND H_C_D_ID=c.C_D_ID AND H_C_ID=c.C_ID) smh
FROM customer c WHERE c.c_w_id = $1 ) t WHERE c1<>coalesce(sm, 0)-smh`,
	`SELECT count(*) FROM (SELECT * FROM (SELECT o_w_id, o_d_id, count(*) order_count FROM orders GROUP BY o_w_id, o_d_id) orders
JOIN (SELECT no_w_id, no_d_id, count(*) new_order_count FROM new_order GROUP BY no_w_id, no_d_id) new_order
ON orders.o_w_id = new_order.no_w_id AND orders.o_d_id = new_order.no_d_id) order_new_order
JOIN (SELECT c_w_id, c_d_id, count(*) customer_count, sum(c_delivery_cnt) delivered FROM customer GROUP BY c_w_id, c_d_id) customer
ON order_new_order.no_w_id = customer.c_w_id AND order_new_order.no_d_id = customer.c_d_id
WHERE c_w_id = $1 AND order_count - (customer_count * 7 / 10 + delivered) != new_order_count`,
	`SELECT count(*) FROM (SELECT c.c_id, c.c_d_id, c.c_balance c1, c_ytd_payment,
(SELECT sum(ol_amount) FROM orders, order_line WHERE OL_W_ID=O_W_ID AND OL_D_ID = O_D_ID AND OL_O_ID = O_ID AND OL_DELIVERY_D IS NOT NULL AND
O_W_ID=c.c_w_id AND O_D_ID=c.C_D_ID AND O_C_ID=c.C_ID) sm FROM customer c WHERE c.c_w_id = $1) t1
WHERE c1+c_ytd_payment <> coalesce(sm, 0)`,
}

func check(db *sql.DB, when string) {
	wrong := false
	for number, text := range conditions {
		for w := 1; w <= warehouses; w++ {
			started := time.Now()
			rows, err := db.Query(text, w)
			must(err)
			for rows.Next() {
				var difference float64
				must(rows.Scan(&difference))
				if difference != 0 {
					fmt.Printf("condition %d does not hold %s: %v\n", number+1, when, difference)
					wrong = true
				}
			}
			must(rows.Err())
			fmt.Printf("condition %d %s: %v\n", number+1, when, time.Since(started).Round(time.Millisecond))
		}
	}
	if wrong {
		os.Exit(1)
	}
}

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand"
	"sort"
	"strings"
	"time"
)

// The last item of one New-Order in a hundred is none: the transaction is rolled back.
var unused = errors.New("an item number that is not used")

const stamps = "2006-01-02 15:04:05"

// A terminal: a connection, and what it has prepared.
type terminal struct {
	connection *sql.Conn
	random     *rand.Rand
	prepared   map[string]*sql.Stmt
	now        *sql.Tx
	doing      string
}

func open(db *sql.DB, random *rand.Rand) *terminal {
	connection, err := db.Conn(ctx)
	must(err)
	return &terminal{connection: connection, random: random, prepared: map[string]*sql.Stmt{}}
}

// One of the five, in the mix of clause 5.2.3.
func (t *terminal) transaction() (err error) {
	t.now, err = t.connection.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer t.now.Rollback()
	which := t.random.Intn(100)
	switch {
	case which < 45:
		err = t.newOrder()
	case which < 88:
		err = t.payment()
	case which < 92:
		err = t.orderStatus()
	case which < 96:
		err = t.delivery()
	default:
		err = t.stockLevel()
	}
	if errors.Is(err, unused) {
		return err
	}
	if err != nil {
		return fmt.Errorf("%s: %w", t.doing, err)
	}
	t.doing = "COMMIT"
	return t.now.Commit()
}

// Prepared once for the connection, whatever transaction is its.
func (t *terminal) statement(text string) (*sql.Stmt, error) {
	t.doing = text
	if known, there := t.prepared[text]; there {
		return known, nil
	}
	made, err := t.connection.PrepareContext(context.Background(), text)
	if err == nil {
		t.prepared[text] = made
	}
	return made, err
}

func (t *terminal) row(into []any, text string, args ...any) error {
	statement, err := t.statement(text)
	if err != nil {
		return err
	}
	return statement.QueryRow(args...).Scan(into...)
}

func (t *terminal) rows(each func(*sql.Rows) error, text string, args ...any) error {
	statement, err := t.statement(text)
	if err != nil {
		return err
	}
	rows, err := statement.Query(args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (t *terminal) write(text string, args ...any) error {
	statement, err := t.statement(text)
	if err == nil {
		_, err = statement.Exec(args...)
	}
	return err
}

func (t *terminal) newOrder() error {
	type line struct{ item, supply, quantity int }
	w, d, c := between(t.random, 1, warehouses), between(t.random, 1, districts), nonUniform(t.random, 1023, 1, customers)
	lines := make([]line, between(t.random, 5, 15))
	chosen := map[int]bool{}
	for at := range lines {
		item := nonUniform(t.random, 8191, 1, items)
		for chosen[item] {
			item = nonUniform(t.random, 8191, 1, items)
		}
		chosen[item] = true
		lines[at] = line{item, w, between(t.random, 1, 10)}
	}
	if t.random.Intn(100) == 0 {
		lines[len(lines)-1].item = -1
	}
	sort.Slice(lines, func(a, b int) bool { return lines[a].item < lines[b].item })

	var discount, wTax, dTax, price float64
	var last, credit, name, data, stockData, dist string
	var o, quantity int
	err := t.row([]any{&discount, &last, &credit, &wTax}, `SELECT c_discount, c_last, c_credit, w_tax FROM customer, warehouse
WHERE w_id = $1 AND c_w_id = w_id AND c_d_id = $2 AND c_id = $3`, w, d, c)
	if err != nil {
		return err
	}
	err = t.row([]any{&o, &dTax}, `SELECT d_next_o_id, d_tax FROM district WHERE d_id = $1 AND d_w_id = $2 FOR UPDATE`, d, w)
	if err != nil {
		return err
	}
	if err := t.write(`UPDATE district SET d_next_o_id = $1 + 1 WHERE d_id = $2 AND d_w_id = $3`, o, d, w); err != nil {
		return err
	}
	err = t.write(`INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
VALUES ($1, $2, $3, $4, $5, $6, $7)`, o, d, w, c, time.Now().Format(stamps), len(lines), 1)
	if err != nil {
		return err
	}
	if err := t.write(`INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES ($1, $2, $3)`, o, d, w); err != nil {
		return err
	}
	for number, line := range lines {
		err := t.row([]any{&price, &name, &data}, `SELECT i_price, i_name, i_data FROM item WHERE i_id = $1`, line.item)
		if errors.Is(err, sql.ErrNoRows) {
			return unused
		}
		if err != nil {
			return err
		}
		query := fmt.Sprintf(`SELECT s_quantity, s_data, s_dist_%02d s_dist FROM stock WHERE s_i_id = $1 AND s_w_id = $2 FOR UPDATE`, d)
		if err := t.row([]any{&quantity, &stockData, &dist}, query, line.item, line.supply); err != nil {
			return err
		}
		if quantity -= line.quantity; quantity < 10 {
			quantity += 91
		}
		err = t.write(`UPDATE stock SET s_quantity = $1, s_ytd = s_ytd + $2, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $3
WHERE s_i_id = $4 AND s_w_id = $5`, quantity, line.quantity, 0, line.item, line.supply)
		if err != nil {
			return err
		}
		amount := float64(line.quantity) * price * (1 + wTax + dTax) * (1 - discount)
		err = t.write(`INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount,
ol_dist_info) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`, o, d, w, number+1, line.item, line.supply, line.quantity, amount, dist)
		if err != nil {
			return err
		}
	}
	return nil
}

// The one in the middle of those with a name, or one by number.
func (t *terminal) customer(w, d int) (id int, err error) {
	if t.random.Intn(100) < 40 {
		return nonUniform(t.random, 1023, 1, customers), nil
	}
	last, count := anyLastName(t.random), 0
	err = t.row([]any{&count}, `SELECT count(c_id) namecnt FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3`, w, d, last)
	if err != nil {
		return 0, err
	}
	at := 0
	err = t.rows(func(rows *sql.Rows) error {
		if at++; at <= (count+1)/2 {
			return rows.Scan(&id)
		}
		return nil
	}, `SELECT c_id FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 ORDER BY c_first`, w, d, last)
	return id, err
}

func (t *terminal) payment() error {
	w, d := between(t.random, 1, warehouses), between(t.random, 1, districts)
	amount := float64(between(t.random, 100, 500000)) / 100
	var text [13]string
	if err := t.write("UPDATE warehouse SET w_ytd = w_ytd + $1 WHERE w_id = $2", amount, w); err != nil {
		return err
	}
	err := t.row([]any{&text[0], &text[1], &text[2], &text[3], &text[4], &text[5]},
		"SELECT w_street_1, w_street_2, w_city, w_state, w_zip, w_name FROM warehouse WHERE w_id = $1", w)
	if err != nil {
		return err
	}
	warehouse := text[5]
	if err := t.write("UPDATE district SET d_ytd = d_ytd + $1 WHERE d_w_id = $2 AND d_id = $3", amount, w, d); err != nil {
		return err
	}
	err = t.row([]any{&text[0], &text[1], &text[2], &text[3], &text[4], &text[5]},
		"SELECT d_street_1, d_street_2, d_city, d_state, d_zip, d_name FROM district WHERE d_w_id = $1 AND d_id = $2", w, d)
	if err != nil {
		return err
	}
	district := text[5]
	c, err := t.customer(w, d)
	if err != nil {
		return err
	}
	var limit, discount, balance float64
	err = t.row([]any{&text[0], &text[1], &text[2], &text[3], &text[4], &text[5], &text[6], &text[7], &text[8], &text[9], &limit, &discount,
		&balance, &text[10]}, `SELECT c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_credit, c_credit_lim,
c_discount, c_balance, c_since FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3 FOR UPDATE`, w, d, c)
	if err != nil {
		return err
	}
	if text[9] == "BC" {
		var data string
		err := t.row([]any{&data}, `SELECT c_data FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3`, w, d, c)
		if err != nil {
			return err
		}
		data = fmt.Sprintf("| %4d %2d %4d %2d %4d $%7.2f %12s %24s", c, d, w, d, w, amount, time.Now().Format(stamps), data)
		err = t.write(`UPDATE customer SET c_balance = c_balance - $1, c_ytd_payment = c_ytd_payment + $2, c_payment_cnt = c_payment_cnt + 1,
c_data = $3 WHERE c_w_id = $4 AND c_d_id = $5 AND c_id = $6`, amount, amount, data[:min(500, len(data))], w, d, c)
		if err != nil {
			return err
		}
	} else {
		err := t.write(`UPDATE customer SET c_balance = c_balance - $1, c_ytd_payment = c_ytd_payment + $2, c_payment_cnt = c_payment_cnt + 1
WHERE c_w_id = $3 AND c_d_id = $4 AND c_id = $5`, amount, amount, w, d, c)
		if err != nil {
			return err
		}
	}
	return t.write(`INSERT INTO history (h_c_d_id, h_c_w_id, h_c_id, h_d_id, h_w_id, h_date, h_amount, h_data)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, d, w, c, d, w, time.Now().Format(stamps), amount, fmt.Sprintf("%10s    %10s", warehouse, district))
}

func (t *terminal) orderStatus() error {
	w, d := between(t.random, 1, warehouses), between(t.random, 1, districts)
	c, err := t.customer(w, d)
	if err != nil {
		return err
	}
	var balance float64
	var first, middle, last, entered string
	err = t.row([]any{&balance, &first, &middle, &last}, `SELECT c_balance, c_first, c_middle, c_last FROM customer
WHERE c_id = $1 AND c_d_id = $2 AND c_w_id = $3`, c, d, w)
	if err != nil {
		return err
	}
	var o int
	var carrier sql.NullInt64
	err = t.row([]any{&o, &carrier, &entered}, `SELECT o_id, o_carrier_id, o_entry_d FROM orders WHERE o_w_id = $1
AND o_d_id = $2 AND o_c_id = $3 ORDER BY o_id DESC LIMIT 1`, w, d, c)
	if err != nil {
		return err
	}
	return t.rows(func(rows *sql.Rows) error {
		var item, supply, quantity int
		var amount float64
		var delivered sql.NullString
		return rows.Scan(&item, &supply, &quantity, &amount, &delivered)
	}, `SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d
FROM order_line WHERE ol_w_id = $1 AND ol_d_id = $2  AND ol_o_id = $3`, w, d, o)
}

// Conditions that name ten orders by their keys, as a list of rows or one by one; they start behind the first `before` parameters.
func tenOrders(prefix string, before int, asRows bool) string {
	parts := make([]string, districts)
	for at := range parts {
		number := before + 3*at
		if asRows {
			parts[at] = fmt.Sprintf("($%d,$%d,$%d)", number+1, number+2, number+3)
		} else {
			parts[at] = fmt.Sprintf("(%[1]sw_id=$%[2]d AND %[1]sd_id=$%[3]d AND %[1]so_id=$%[4]d)", prefix, number+1, number+2, number+3)
		}
	}
	if asRows {
		return fmt.Sprintf("(%[1]sw_id, %[1]sd_id, %[1]so_id) IN (\n%[2]s\n)", prefix, strings.Join(parts, ","))
	}
	return strings.Join(parts, " OR ")
}

func (t *terminal) delivery() error {
	w, carrier := between(t.random, 1, warehouses), between(t.random, 1, 10)
	asRows := t.random.Intn(2) == 0
	ofOrders := strings.ReplaceAll(tenOrders("o_", 0, asRows), "o_o_id", "o_id")
	ofOrdersLater := strings.ReplaceAll(tenOrders("o_", 1, asRows), "o_o_id", "o_id")
	var oldest, buyers [districts]int
	var amounts [districts]float64
	for at := range oldest {
		err := t.row([]any{&oldest[at]}, "SELECT no_o_id FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 ORDER BY no_o_id ASC LIMIT 1 FOR UPDATE",
			w, at+1)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
	}
	var keys []any
	for at, o := range oldest {
		keys = append(keys, w, at+1, o)
	}
	if err := t.write("DELETE FROM new_order WHERE "+tenOrders("no_", 0, asRows), keys...); err != nil {
		return err
	}
	if err := t.write("UPDATE orders SET o_carrier_id = $1 WHERE "+ofOrdersLater, append([]any{carrier}, keys...)...); err != nil {
		return err
	}
	err := t.rows(func(rows *sql.Rows) error {
		var d, c int
		err := rows.Scan(&d, &c)
		buyers[d-1] = c
		return err
	}, "SELECT o_d_id, o_c_id FROM orders WHERE "+ofOrders, keys...)
	if err != nil {
		return err
	}
	err = t.write("UPDATE order_line SET ol_delivery_d = $1 WHERE "+tenOrders("ol_", 1, asRows),
		append([]any{time.Now().Format(stamps)}, keys...)...)
	if err != nil {
		return err
	}
	err = t.rows(func(rows *sql.Rows) error {
		var d int
		var amount float64
		err := rows.Scan(&d, &amount)
		amounts[d-1] = amount
		return err
	}, "SELECT ol_d_id, SUM(ol_amount) FROM order_line WHERE "+tenOrders("ol_", 0, asRows)+" GROUP BY ol_d_id", keys...)
	if err != nil {
		return err
	}
	for at, o := range oldest {
		if o == 0 {
			continue
		}
		err := t.write(`UPDATE customer SET c_balance = c_balance + $1, c_delivery_cnt = c_delivery_cnt + 1
WHERE c_w_id = $2 AND c_d_id = $3 AND c_id = $4`, amounts[at], w, at+1, buyers[at])
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *terminal) stockLevel() error {
	w, d := between(t.random, 1, warehouses), between(t.random, 1, districts)
	var next, low int
	if err := t.row([]any{&next}, "SELECT d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2", w, d); err != nil {
		return err
	}
	return t.row([]any{&low}, `/*+ hints are comments */ SELECT COUNT(DISTINCT (s_i_id)) stock_count FROM order_line, stock
WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id < $3 AND ol_o_id >= $4 - 20
AND s_w_id = $5 AND s_i_id = ol_i_id AND s_quantity < $6`, w, d, next, next, w, between(t.random, 10, 20))
}

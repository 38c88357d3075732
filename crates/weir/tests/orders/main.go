// TPC-C over lib/pq, as its clients in Go do it: database/sql, prepared statements of one connection for each terminal, one statement
// for each step, at READ COMMITTED. It defines and loads its tables, runs the five transactions, and asks for the twelve conditions.
//
//	orders PORT SCALE TERMINALS TRANSACTIONS    a scale of 1 is a warehouse of full size, of 100 one with a hundredth of its rows
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lib/pq"
)

const districts = 10

var (
	warehouses = 1
	items      = 100000
	customers  = 3000
	ctx        = context.Background()
	names      = []string{"BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"}
)

func main() {
	numbers := make([]int, 4)
	for at := range numbers {
		numbers[at], _ = strconv.Atoi(os.Args[at+1])
	}
	items, customers = items/numbers[1], customers/numbers[1]
	db, err := sql.Open("postgres", fmt.Sprintf("host=127.0.0.1 port=%d user=ann dbname=weir sslmode=disable", numbers[0]))
	must(err)
	started := time.Now()
	define(db)
	load(db)
	fmt.Printf("loaded in %v\n", time.Since(started).Round(time.Millisecond))
	check(db, "as loaded")
	started = time.Now()
	run(db, numbers[2], numbers[3])
	fmt.Printf("run in %v\n", time.Since(started).Round(time.Millisecond))
	check(db, "after the run")
	fmt.Println("all is well")
}

func must(err error) {
	if err != nil {
		var answer *pq.Error
		if errors.As(err, &answer) {
			err = fmt.Errorf("%w (%s; detail: %s; hint: %s)", err, answer.Code, answer.Detail, answer.Hint)
		}
		panic(err)
	}
}

func lastName(number int) string {
	return names[number/100] + names[number/10%10] + names[number%10]
}

// Last names of the run are those of the population, the first thousand customers of a district having one each.
func anyLastName(random *rand.Rand) string {
	return lastName(nonUniform(random, 255, 0, min(customers, 1000)-1))
}

func nonUniform(random *rand.Rand, a, low, high int) int {
	return ((random.Intn(a+1)|(low+random.Intn(high-low+1)))+a/2)%(high-low+1) + low
}

func between(random *rand.Rand, low, high int) int {
	return low + random.Intn(high-low+1)
}

func letters(random *rand.Rand, low, high int) string {
	text := make([]byte, between(random, low, high))
	for at := range text {
		text[at] = byte('a' + random.Intn(26))
	}
	return string(text)
}

// The population: many rows an INSERT, a quarter of the tables by COPY.

type loader struct {
	db    *sql.DB
	head  string
	lines []string
}

func (l *loader) row(format string, values ...any) {
	l.lines = append(l.lines, fmt.Sprintf(format, values...))
	if len(l.lines) == 512 {
		l.flush()
	}
}

func (l *loader) flush() {
	if len(l.lines) > 0 {
		_, err := l.db.ExecContext(ctx, l.head+strings.Join(l.lines, ","))
		must(err)
	}
	l.lines = l.lines[:0]
}

func load(db *sql.DB) {
	random := rand.New(rand.NewSource(1))
	into := func(head string) *loader { return &loader{db: db, head: "INSERT INTO " + head + " VALUES "} }
	address := func() string {
		return fmt.Sprintf("'%s','%s','%s','%s','%09d'", letters(random, 10, 20), letters(random, 10, 20), letters(random, 10, 20),
			letters(random, 2, 2), random.Intn(1e9))
	}
	item := into("item (i_id, i_im_id, i_name, i_price, i_data)")
	for id := 1; id <= items; id++ {
		item.row("(%d,%d,'%s',%d.%02d,'%s')", id, between(random, 1, 10000), letters(random, 14, 24), between(random, 1, 99),
			random.Intn(100), letters(random, 26, 50))
	}
	item.flush()
	for w := 1; w <= warehouses; w++ {
		loadWarehouse(db, random, w, into, address)
	}
}

func loadWarehouse(db *sql.DB, random *rand.Rand, w int, into func(string) *loader, address func() string) {
	stamp := time.Now().Format("2006-01-02 15:04:05")
	_, err := db.Exec(fmt.Sprintf("INSERT INTO warehouse (w_id, w_name, w_street_1, w_street_2, w_city, w_state, w_zip, w_tax, w_ytd) "+
		"VALUES (%d,'%s',%s,%.4f,%d)", w, letters(random, 6, 10), address(), float64(random.Intn(2001))/10000, districts*customers*10))
	must(err)
	stock := into("stock (s_i_id, s_w_id, s_quantity, s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, " +
		"s_dist_08, s_dist_09, s_dist_10, s_ytd, s_order_cnt, s_remote_cnt, s_data)")
	for id := 1; id <= items; id++ {
		dist := make([]string, 10)
		for at := range dist {
			dist[at] = "'" + letters(random, 24, 24) + "'"
		}
		stock.row("(%d,%d,%d,%s,0,0,0,'%s')", id, w, between(random, 10, 100), strings.Join(dist, ","), letters(random, 26, 50))
	}
	stock.flush()
	customer := into("customer (c_id, c_d_id, c_w_id, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, " +
		"c_since, c_credit, c_credit_lim, c_discount, c_balance, c_ytd_payment, c_payment_cnt, c_delivery_cnt, c_data)")
	history := into("history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)")
	for d := 1; d <= districts; d++ {
		_, err := db.Exec(fmt.Sprintf("INSERT INTO district (d_id, d_w_id, d_name, d_street_1, d_street_2, d_city, d_state, d_zip, d_tax, "+
			"d_ytd, d_next_o_id) VALUES (%d,%d,'%s',%s,%.4f,%d,%d)", d, w, letters(random, 6, 10), address(),
			float64(random.Intn(2001))/10000, customers*10, customers+1))
		must(err)
		for c := 1; c <= customers; c++ {
			name := lastName(c - 1)
			if c > 1000 {
				name = anyLastName(random)
			}
			credit := "GC"
			if random.Intn(10) == 0 {
				credit = "BC"
			}
			customer.row("(%d,%d,%d,'%s','OE','%s',%s,'%016d','%s','%s',50000,%.4f,-10,10,1,0,'%s')", c, d, w, letters(random, 8, 16), name,
				address(), random.Intn(1e15), stamp, credit, float64(random.Intn(5001))/10000, letters(random, 300, 500))
			history.row("(%d,%d,%d,%d,%d,'%s',10,'%s')", c, d, w, d, w, stamp, letters(random, 12, 24))
		}
	}
	customer.flush()
	history.flush()
	loadOrders(db, random, w, stamp)
}

// By COPY, three tables in a transaction; lib/pq takes one COPY at a time.
func loadOrders(db *sql.DB, random *rand.Rand, w int, stamp string) {
	var orders, open, lines [][]any
	for d := 1; d <= districts; d++ {
		for at, c := range random.Perm(customers) {
			o, count := at+1, between(random, 5, 15)
			var carrier, delivered any
			if undelivered := o > customers*7/10; undelivered {
				open = append(open, []any{o, d, w})
			} else {
				carrier, delivered = between(random, 1, 10), stamp
			}
			orders = append(orders, []any{o, d, w, c + 1, stamp, carrier, count, 1})
			for number := 1; number <= count; number++ {
				amount := "0.00"
				if delivered == nil {
					amount = fmt.Sprintf("%d.%02d", random.Intn(9999), between(random, 1, 99))
				}
				lines = append(lines, []any{o, d, w, number, between(random, 1, items), w, delivered, 5, amount, letters(random, 24, 24)})
			}
		}
	}
	tx, err := db.Begin()
	must(err)
	copyIn := func(rows [][]any, table string, columns ...string) {
		statement, err := tx.Prepare(pq.CopyIn(table, columns...))
		must(err)
		for _, row := range rows {
			_, err = statement.Exec(row...)
			must(err)
		}
		_, err = statement.Exec()
		must(err)
		must(statement.Close())
	}
	copyIn(orders, "orders", "o_id", "o_d_id", "o_w_id", "o_c_id", "o_entry_d", "o_carrier_id", "o_ol_cnt", "o_all_local")
	copyIn(open, "new_order", "no_o_id", "no_d_id", "no_w_id")
	copyIn(lines, "order_line", "ol_o_id", "ol_d_id", "ol_w_id", "ol_number", "ol_i_id", "ol_supply_w_id", "ol_delivery_d", "ol_quantity",
		"ol_amount", "ol_dist_info")
	must(tx.Commit())
}

// What the terminals have done.
type tally struct {
	sync.Mutex
	done, rolledBack int
	failed           []error
}

func run(db *sql.DB, terminals, transactions int) {
	var together sync.WaitGroup
	var all tally
	for number := 0; number < terminals; number++ {
		together.Add(1)
		go func(number int) {
			defer together.Done()
			t := open(db, rand.New(rand.NewSource(int64(number)+2)))
			for at := 0; at < transactions; at++ {
				err := t.transaction()
				all.Lock()
				switch {
				case errors.Is(err, unused):
					all.rolledBack++
				case err != nil:
					all.failed = append(all.failed, err)
				default:
					all.done++
				}
				all.Unlock()
			}
		}(number)
	}
	together.Wait()
	fmt.Printf("%d transactions, %d rolled back as they should, %d failed\n", all.done, all.rolledBack, len(all.failed))
	told := map[string]int{}
	for _, err := range all.failed {
		told[err.Error()]++
	}
	for what, times := range told {
		fmt.Printf("%d times: %s\n", times, what)
	}
	if len(all.failed) > 0 {
		os.Exit(1)
	}
}

create or replace function book(h int, r int, g uuid, a date, b date) returns uuid language plpgsql as $$
declare bid uuid;
begin
  if exists (select 1 from bookings where hotel_id = h and room = r and period && daterange(a,b) and not cancelled) then
    raise exception 'taken';
  end if;
  insert into bookings (hotel_id, room, guest_id, period) values (h, r, g, daterange(a, b)) returning id into bid;
  return bid;
end $$;
create function cancel(bid uuid) returns void language sql as $$ update bookings set cancelled = true where id = bid $$;
create function move(bid uuid, new_room int) returns void language sql as $$ update bookings set room = new_room where id = bid $$;
create function invoice(bid uuid) returns int language plpgsql as $$
declare n int; h int;
begin
  select hotel_id into h from bookings where id = bid;
  select coalesce(max(no), 0) + 1 into n from invoices where hotel_id = h;
  insert into invoices values (h, n, bid);
  return n;
end $$;
create function sell_seat(f int, n int) returns void language plpgsql as $$
begin
  if n <= 0 then raise exception 'n must be positive'; end if;
  update flights set sold = sold + n where id = f;
end $$;
create function refund_seat(f int) returns void language plpgsql as $$
begin update flights set sold = sold - 1 where id = f; end $$;
create function go_off_call(d text) returns void language plpgsql as $$
declare others int;
begin
  select count(*) into others from on_call where active and doctor <> d;
  if others < 1 then raise exception 'someone must stay'; end if;
  update on_call set active = false where doctor = d;
end $$;
create function go_on_call(d text) returns void language sql as $$ update on_call set active = true where doctor = d $$;
create function remove_guest(g uuid) returns void language sql as $$ delete from guests where id = g $$;

CREATE EXTENSION IF NOT EXISTS btree_gist;
CREATE TABLE hotels (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, city text NOT NULL);
CREATE TABLE rooms (
  hotel_id int NOT NULL REFERENCES hotels,
  number int NOT NULL,
  beds smallint NOT NULL CHECK (beds BETWEEN 1 AND 6),
  PRIMARY KEY (hotel_id, number)
);
CREATE TABLE guests (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), email text UNIQUE NOT NULL, vip boolean NOT NULL DEFAULT false);
CREATE TABLE bookings (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  hotel_id int NOT NULL,
  room int NOT NULL,
  guest_id uuid NOT NULL REFERENCES guests ON DELETE CASCADE,
  period daterange NOT NULL,
  cancelled boolean NOT NULL DEFAULT false,
  FOREIGN KEY (hotel_id, room) REFERENCES rooms,
  CONSTRAINT no_double_booking EXCLUDE USING gist (hotel_id WITH =, room WITH =, period WITH &&) WHERE (NOT cancelled),
  CHECK (NOT isempty(period))
);
CREATE TABLE flights (id int PRIMARY KEY, seats int NOT NULL, sold int NOT NULL DEFAULT 0, CHECK (sold >= 0 AND sold <= seats));
CREATE TABLE on_call (doctor text PRIMARY KEY, shift date NOT NULL, active boolean NOT NULL);
CREATE TABLE invoices (hotel_id int REFERENCES hotels, no int, booking uuid UNIQUE REFERENCES bookings, PRIMARY KEY (hotel_id, no));

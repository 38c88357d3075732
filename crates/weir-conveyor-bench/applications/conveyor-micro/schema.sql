-- The micro-benchmark of operation-partitioning.txt §7.3: local and global operations of one length.
CREATE TABLE cell (id bigint PRIMARY KEY, n bigint NOT NULL);
CREATE TABLE total (id integer PRIMARY KEY, n bigint NOT NULL);

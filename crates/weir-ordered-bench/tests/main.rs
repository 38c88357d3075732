//! Every protocol over real sockets, with few transactions: all are answered, answers and values agree, and where the protocol promises it, the
//! order is strictly serializable. Nothing here depends on how long anything takes.

mod runs;
mod world;

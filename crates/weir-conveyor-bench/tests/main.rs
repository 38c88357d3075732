//! Workloads over real servers, which the tests start for themselves.

mod workloads;

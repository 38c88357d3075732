//! Simulations with round service times: what has to hold whatever was measured.

mod belt;
mod comparators;
mod measured;

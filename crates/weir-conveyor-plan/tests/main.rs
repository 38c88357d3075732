//! Plans of the paper's two applications, and of small ones.

mod applications;
mod refusals;

//! Both roles together.

mod pair;

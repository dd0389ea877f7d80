//! Where guests run.

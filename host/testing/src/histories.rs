//! How many random histories a long property goes through: few by default, all with `HOST_LONG_TESTS`
//! in the environment.

/// Returns `few`, or `all` if the long properties are to run in full.
#[expect(
    clippy::disallowed_methods,
    reason = "a switch for those who run the tests"
)]
pub fn histories(few: u32, all: u32) -> u32 {
    match std::env::var_os("HOST_LONG_TESTS") {
        Some(_) => all,
        None => few,
    }
}

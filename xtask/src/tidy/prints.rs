//! The macros that print panic if the output cannot be written: a full disk or a reader that is gone would end the
//! process.

use super::files;

/// The folders of the program.
const SEARCHED: &str = "host/";

const MACROS: &[&str] = &["println!", "print!", "eprintln!", "eprint!"];

/// Returns whether a line of code calls one of the macros.
fn prints(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    MACROS.iter().any(|name| code.contains(name))
}

#[test]
fn no_output_that_cannot_be_written_ends_the_program() {
    for (path, text) in files("rs") {
        let shown = path.display().to_string();
        // Tests run with an output.
        if !shown.starts_with(SEARCHED) || shown.contains("tests") {
            continue;
        }
        let code = text.split("#[cfg(test)]\nmod tests {").next();
        let printing = code.unwrap_or_default().lines().filter(|line| prints(line));
        assert_eq!(
            printing.collect::<Vec<_>>(),
            [""; 0],
            "{shown}: use `host_console::output` or `host_confine::report`"
        );
    }
    assert!(prints("    eprintln!(\"a\");"));
    assert!(!prints("/// never full, because `println!` would panic"));
}

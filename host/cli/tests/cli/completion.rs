//! `host completion`.

use crate::canned::{Transcript, run_alone};

#[test]
fn help_and_errors() {
    let mut seen = Transcript::new("completion_help_and_errors");
    seen.add(&run_alone(&["completion", "--help"]));
    seen.add(&run_alone(&["completion", "csh"]));
    seen.check();
}

#[test]
fn every_shell_gets_a_script_that_knows_the_nouns() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = run_alone(&["completion", shell]);
        assert!(script.ends_with("exit 0\n"), "{shell}: {script}");
        assert!(script.contains("enqueue"), "{shell}: {script}");
    }
}

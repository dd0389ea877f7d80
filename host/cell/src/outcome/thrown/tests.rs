//! Standard error of guests in each language before an abort.

use super::*;

/// A message and a stack.
type MessageAndStack = (String, Option<String>);

fn find_in(stderr: &str) -> Option<MessageAndStack> {
    let lines: Vec<String> = stderr.lines().map(str::to_owned).collect();
    find(&lines).map(|thrown| (thrown.message, thrown.stack))
}

fn thrown(message: &str, stack: Option<&str>) -> MessageAndStack {
    (message.to_owned(), stack.map(str::to_owned))
}

#[test]
fn a_panic_of_rust() {
    let stderr = "before\nthread 'main' (1) panicked at src/lib.rs:7:5:\nno luck\nat all\n\
                  note: run with `RUST_BACKTRACE=1`";
    let message = "panicked at src/lib.rs:7:5: no luck\nat all";
    assert_eq!(find_in(stderr).unwrap(), thrown(message, None));
}

const PYTHON_END: &str = "\n\nthread '<unnamed>' (1) panicked at runtime/src/lib.rs:1293:29:\n\
    Python function threw an unexpected exception\nnote: run with `RUST_BACKTRACE=1`";

#[test]
fn an_exception_of_python() {
    let traceback = "Traceback (most recent call last):\n  File \"/0/app.py\", line 15, in handle\n  \
                     File \"/0/app.py\", line 22, in inner\nValueError: no luck\nat all";
    let stderr = format!("before\n{traceback}{PYTHON_END}");
    let message = "ValueError: no luck\nat all";
    assert_eq!(find_in(&stderr).unwrap(), thrown(message, Some(traceback)));
}

#[test]
fn an_exception_of_python_with_its_cause() {
    let traceback = "Traceback (most recent call last):\n  File \"/0/app.py\", line 1, in a\nKeyError: 'x'\n\n\
        During handling of the above exception, another exception occurred:\n\n\
        Traceback (most recent call last):\n  File \"/0/app.py\", line 2, in b\nValueError: no x";
    let stderr = format!("{traceback}{PYTHON_END}");
    assert_eq!(
        find_in(&stderr).unwrap(),
        thrown("ValueError: no x", Some(traceback))
    );
}

#[test]
fn a_long_traceback_whose_beginning_is_gone() {
    let rest = "  File \"/0/app.py\", line 22, in inner\nValueError: no luck";
    let stderr = format!("{rest}{PYTHON_END}");
    assert_eq!(
        find_in(&stderr).unwrap(),
        thrown("ValueError: no luck", Some(rest))
    );
    let nothing = PYTHON_END.trim_start();
    let message =
        "panicked at runtime/src/lib.rs:1293:29: Python function threw an unexpected exception";
    assert_eq!(find_in(nothing).unwrap(), thrown(message, None));
}

#[test]
fn an_exception_of_javascript() {
    let end = "\n\nRedirecting call to abort() to mozalloc_abort\n";
    let failed = "invalid variant tag value `undefined` (received `RangeError: no luck with `a``) \
                  specified for `Failure`\nStack:\n  export_handler$handle@/tmp/initializer.js:612:17";
    assert_eq!(
        find_in(&format!("{failed}{end}")).unwrap(),
        thrown(
            "RangeError: no luck with `a`",
            Some("export_handler$handle@/tmp/initializer.js:612:17")
        )
    );
    let other = format!("before\nno describe\nStack:\n  a@app.js:1:2\n  b@app.js:3:4{end}");
    let stack = "a@app.js:1:2\nb@app.js:3:4";
    assert_eq!(find_in(&other).unwrap(), thrown("no describe", Some(stack)));
}

#[test]
fn other_words_explain_nothing() {
    for stderr in [
        "",
        "Stack:",
        "hello\nTraceback (most recent call last):",
        "warning: x",
    ] {
        assert_eq!(find_in(stderr), None, "{stderr}");
    }
}

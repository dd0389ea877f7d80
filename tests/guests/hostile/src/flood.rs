//! Handlers that send the host more data than it keeps.

use std::io::Write;

use guest_sdk::{Ctx, Error, Level, handler};
use serde::Deserialize;
use serde_json::Value;

use crate::imports;

const MIB: usize = 1 << 20;

#[derive(Deserialize)]
pub(crate) struct Count {
    count: Option<u32>,
}

#[derive(Deserialize)]
pub(crate) struct Size {
    mib: Option<usize>,
}

/// Logs two million lines, or as many as its params say.
#[handler]
pub(crate) fn log_flood(ctx: &Ctx, params: Count) -> Result<u32, Error> {
    let count = params.count.unwrap_or(2_000_000);
    for line in 0..count {
        ctx.info(format_args!("line {line} of a flood"));
    }
    Ok(count)
}

/// Logs one line of 16 MiB, or as large as its params say.
#[handler]
pub(crate) fn log_huge_line(ctx: &Ctx, params: Size) -> Result<(), Error> {
    #[cfg_attr(
        not(target_family = "wasm"),
        expect(unused_variables, reason = "only components log")
    )]
    let line = "x".repeat(params.mib.unwrap_or(16) * MIB);
    #[cfg(target_family = "wasm")]
    {
        // The SDK would cut it.
        use guest_sdk::bindings::host::jobs::log;
        log::write(log::Level::Warn, &line, &[]);
    }
    ctx.check_cancelled()
}

/// Logs one line with 10,000 fields, some with the name of a field that each log line has.
#[handler]
pub(crate) fn log_fields(ctx: &Ctx, _params: Value) -> Result<(), Error> {
    let fields = [("level", "error"), ("\u{1b}[31m\n", "\u{0}")].repeat(5_000);
    ctx.log(Level::Trace, "fields", &fields);
    Ok(())
}

/// Prints 100 MiB in short lines, or as much as its params say.
#[handler]
pub(crate) fn stdout_flood(_ctx: &Ctx, params: Size) -> Result<(), Error> {
    let bytes = params.mib.unwrap_or(100) * MIB;
    let line = "x".repeat(127);
    for _ in 0..bytes / 128 {
        println!("{line}");
    }
    Ok(())
}

/// Prints text that could move a terminal's cursor, forge a log record, become markup or break a decoder, then returns.
#[handler]
pub(crate) fn stdout_ansi(_ctx: &Ctx, _params: Value) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    out.write_all(b"\x1b[2J\x1b[31mred\x1b[0m \x1b]0;title\x07 bell\x07\r\n")?;
    out.write_all(b"{\"level\":\"error\",\"message\":\"forged\"}\n")?;
    out.write_all(b"<script>document.title = 'owned'</script><img src=x></pre><h1>owned</h1>\n")?;
    out.write_all("\u{202e}right to left\u{2028}separated\n".as_bytes())?;
    out.write_all(b"not UTF-8: \xff\xfe\xc0\xaf\n")?;
    out.write_all(b"nul: \0 and no newline at the end")?;
    out.flush()?;
    eprintln!("on the other stream");
    Ok(())
}

/// Reports progress a million times, also with invalid values.
#[handler]
pub(crate) fn progress_flood(ctx: &Ctx, params: Count) -> Result<(), Error> {
    let odd = [f32::NAN, f32::INFINITY, -1.0, 1e30, 50.0];
    for (percent, turn) in odd.iter().cycle().zip(0..params.count.unwrap_or(1_000_000)) {
        ctx.progress(*percent, turn);
    }
    ctx.progress(100.0, "x".repeat(MIB));
    Ok(())
}

/// Asks for 256 MiB of random bytes in one call.
#[handler]
pub(crate) fn random_flood(_ctx: &Ctx, params: Size) -> Result<usize, Error> {
    Ok(imports::random_bytes(params.mib.unwrap_or(256) as u64 * MIB as u64).len())
}

/// Creates a million handles and never drops them.
#[handler]
pub(crate) fn pollable_flood(_ctx: &Ctx, params: Count) -> Result<u32, Error> {
    let count = params.count.unwrap_or(1_000_000);
    for _ in 0..count {
        imports::leak_timer();
    }
    Ok(count)
}

/// Fails with a message of 8 MiB, or as large as its params say.
#[handler]
pub(crate) fn giant_error(_ctx: &Ctx, params: Size) -> Result<(), Error> {
    Err(Error::fatal(
        "giant",
        "x".repeat(params.mib.unwrap_or(8) * MIB),
    ))
}

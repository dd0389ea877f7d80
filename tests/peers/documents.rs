//! The commands of the documents: the `sh` blocks of each page run in order, in one shell, in an empty directory with a
//! host. A `text` block right after one is its output, where `…` is any text. A comment `<!-- sh` runs unseen, and
//! a block such as `toml host.toml` is written to that file. A block that cannot run says why: `sh not-run="needs root"`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use host_tests::{compiled, from_wat, guests, ports, postgres, projects, server};
use tempfile::TempDir;

/// What runs before the commands of each page.
const PREPARATION: &str = include_str!("documents/page.sh");

/// Handlers that the pages name. They do nothing and return `{}`.
const HANDLERS: &[&str] = &[
    "alert",
    "bullmq-inspect",
    "celery-charge",
    "count",
    "fetch_orders",
    "import-part",
    "import-report",
    "import-split",
    "load",
    "pay",
    "publish",
    "refund",
    "report",
    "resize",
    "send_email",
    "sidekiq-welcome",
    "sqs-ship",
    "temporal-charge",
    "temporal-ship",
    "tidy-up",
    "upload",
];

/// Written around the output of each block.
const MARK: char = '\u{1e}';

/// What is before and after the name of a database in an address.
const DATABASE: (&str, &str) = ("postgres://host@db.example.com/", "?sslmode=verify-full");

/// The machine that pages name.
const MACHINE: &str = "db-worker-3";

/// A test for each page with commands.
macro_rules! pages {
    ($($name:ident: $path:literal,)*) => {
        const PAGES: &[&str] = &[$($path),*];
        $(
            #[test]
            fn $name() {
                run($path);
            }
        )*
    };
}

pages! {
    access: "access.md",
    backup: "backup.md",
    batches: "batches.md",
    bullmq: "from/bullmq.md",
    call_an_api: "guides/call-an-api.md",
    celery: "from/celery.md",
    clients: "clients.md",
    databases_guide: "guides/databases.md",
    deploy: "guides/deploy.md",
    errors: "guides/errors.md",
    fan_out: "guides/fan-out.md",
    files_guide: "guides/files.md",
    http: "http.md",
    incidents: "guides/incidents.md",
    limits: "limits.md",
    limits_guide: "guides/limits.md",
    metrics: "metrics.md",
    network: "network.md",
    observing: "guides/observing.md",
    operate: "operate.md",
    outbox: "outbox.md",
    postgresql: "postgres.md",
    production: "guides/production.md",
    schedules: "schedules.md",
    schedules_guide: "guides/schedules.md",
    sidekiq: "from/sidekiq.md",
    sqs: "from/sqs.md",
    start: "guides/start.md",
    temporal: "from/temporal.md",
    testing: "guides/testing.md",
    upgrade: "guides/upgrade.md",
    webhooks: "webhooks.md",
}

/// A fenced block of a page, or a comment that runs.
struct Block<'a> {
    /// The language, and what follows it.
    info: &'a str,
    text: &'a str,
    /// Only blank lines are between it and the block before.
    follows: bool,
}

impl Block<'_> {
    fn language(&self) -> &str {
        self.info.split(' ').next().unwrap_or_default()
    }

    /// Returns whether it runs.
    fn is_run(&self) -> bool {
        self.info == "sh"
    }

    /// Returns the file that it is written to.
    fn file(&self) -> Option<&str> {
        let (language, file) = self.info.split_once(' ')?;
        (language != "sh").then_some(file)
    }

    /// Returns why it does not run, if it says so.
    fn reason(&self) -> Option<&str> {
        let reason = self.info.strip_prefix("sh not-run=\"")?;
        reason.strip_suffix('"').filter(|it| !it.is_empty())
    }
}

/// Splits a page into its blocks.
fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut rest = page;
    while let Some((before, info, text, after)) = next_block(rest) {
        let follows = !blocks.is_empty() && before.trim().is_empty();
        blocks.push(Block {
            info,
            text,
            follows,
        });
        rest = after;
    }
    blocks
}

/// Returns what is before the next block, its first line and its text, and what is after it.
fn next_block(page: &str) -> Option<(&str, &str, &str, &str)> {
    let starts = [("```", "\n```"), ("<!-- sh", "\n-->")];
    let (at, fence, end) = starts
        .into_iter()
        .filter_map(|(fence, end)| {
            let at = format!("\n{page}").find(&format!("\n{fence}"))?;
            Some((at, fence, end))
        })
        .min()?;
    let (info, rest) = page[at..].split_once('\n')?;
    let info = match fence {
        "```" => info.trim_start_matches('`'),
        _ => "sh",
    };
    // An empty block ends on its second line.
    let from = &page[page.len() - rest.len() - 1..];
    let (text, after) = from.split_once(end)?;
    Some((&page[..at], info, text, after))
}

/// Runs the commands of a page and compares what they print with what the page shows.
fn run(path: &str) {
    let page = fs::read_to_string(docs().join(path)).unwrap();
    let blocks = blocks(&page);
    let commands: Vec<&Block<'_>> = blocks.iter().filter(|it| it.is_run()).collect();
    let mut script = PREPARATION.to_owned();
    for block in &blocks {
        if block.is_run() {
            write!(script, "printf '{MARK}'\n{}\nprintf '{MARK}'\n", block.text).unwrap();
        } else if let Some(file) = block.file() {
            write!(script, "cat > {file} <<'END'{}\nEND\n", block.text).unwrap();
        }
    }
    let folder = TempDir::new().unwrap();
    let (output, succeeded) = run_script(folder.path(), path, &script);
    // What is before, in and after each block that ran.
    let parts: Vec<&str> = output.split(MARK).collect();
    assert!(
        succeeded,
        "{path}: this block fails:\n{}\n{}\n{}",
        commands
            .get((parts.len().max(2) - 2) / 2)
            .map_or("(before the first)", |block| block.text),
        parts.last().copied().unwrap_or_default(),
        fs::read_to_string(folder.path().join("serve.log")).unwrap_or_default(),
    );
    let mut printed = parts.iter().skip(1).step_by(2);
    let mut last = None;
    for block in &blocks {
        if block.is_run() {
            last = printed.next();
        } else if block.language() == "text" && block.follows {
            let Some(shown) = last else { continue };
            assert!(
                fits(block.text, shown),
                "{path} shows:\n{}\nThe commands print:\n{shown}",
                block.text
            );
        } else {
            last = None;
        }
    }
}

/// Runs a script in a folder. Returns what it printed, and whether it succeeded.
fn run_script(folder: &Path, path: &str, script: &str) -> (String, bool) {
    let data = folder.join("data");
    fs::create_dir(&data).unwrap();
    compiled::give_key(&data);
    compiled::give(&data);
    fs::write(
        folder.join("handlers.wasm"),
        from_wat::with_handlers(HANDLERS),
    )
    .unwrap();
    let address = format!("127.0.0.1:{}", ports::free(1));
    let place = |name: &str| folder.join(name).display().to_string();
    let mut script = script.replace("127.0.0.1:7700", &address);
    for (there, here) in [
        ("/var/lib/host", place("data")),
        ("/etc/", place("etc/")),
        ("/backup/", place("backup/")),
    ] {
        script = script.replace(there, &here);
    }
    let machine = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    script = with_databases(path, &script.replace(MACHINE, machine.trim()));
    let output = Command::new("timeout")
        .args(["300", "bash", "-c", &script])
        .current_dir(folder)
        .env("HOME", folder)
        .env("XDG_CACHE_HOME", projects::cache())
        .env("HOST_PROGRAM", server::host())
        .env("HOST_HTTP_LISTEN", &address)
        .env("HOST_STORE_ALLOW_UNSAFE", "true")
        .env("HOST_SHUTDOWN_GRACE_SECONDS", "0")
        .env("REPOSITORY", docs().with_file_name(""))
        .env("GUESTS", guests::folder())
        .env_remove("HOST_SERVER")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    compiled::keep(&data);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (text, output.status.success())
}

/// Gives the databases of a page their addresses here.
fn with_databases(page: &str, script: &str) -> String {
    let (before, after) = DATABASE;
    let mut pieces = script.split(before);
    let mut script = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (name, rest) = piece.split_once(after).unwrap();
        let page = page.chars().filter(char::is_ascii_alphanumeric);
        script += &postgres::schema(&format!("{}_{name}", page.collect::<String>()));
        script += rest;
    }
    script
}

/// Returns whether a text is as shown: `…` is any text, and any number of spaces is one.
fn fits(shown: &str, printed: &str) -> bool {
    let [shown, printed] = [shown, printed].map(|text| {
        let lines = text.trim().lines().map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.join(" ")
        });
        lines.collect::<Vec<_>>().join("\n")
    });
    let mut pieces: Vec<&str> = shown.split('…').collect();
    let Some(last) = pieces.pop().filter(|_| !pieces.is_empty()) else {
        return shown == printed;
    };
    let Some(mut rest) = printed.strip_prefix(pieces[0]) else {
        return false;
    };
    for piece in &pieces[1..] {
        let Some((_, after)) = rest.split_once(piece) else {
            return false;
        };
        rest = after;
    }
    rest.ends_with(last)
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

/// Returns the pages, except decisions.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("decisions") {
            all.extend(pages(&path));
        } else if path.extension().is_some_and(|it| it == "md") {
            all.push(path);
        }
    }
    all
}

#[test]
fn each_block_of_commands_runs_or_says_why_not() {
    let mut with_commands = BTreeSet::new();
    let root = docs().join("..");
    for path in pages(&docs()).into_iter().chain([root.join("README.md")]) {
        let text = fs::read_to_string(&path).unwrap();
        let shown = path.strip_prefix(docs()).unwrap_or(&path).display();
        for block in blocks(&text) {
            let language = block.language();
            assert!(
                !language.is_empty(),
                "{shown}: a block does not name its language:\n{}",
                block.text
            );
            assert!(
                !["bash", "shell", "console"].contains(&language),
                "{shown}: write `sh`, not `{language}`"
            );
            assert!(
                language != "sh" || block.is_run() || block.reason().is_some(),
                "{shown}: write `sh`, or `sh not-run=\"REASON\"`: {}",
                block.info
            );
            if block.is_run() && path.starts_with(docs()) {
                with_commands.insert(shown.to_string());
            }
        }
    }
    // The README is run by `tour`.
    with_commands.retain(|page| !page.ends_with("README.md"));
    let tested: BTreeSet<String> = PAGES.iter().map(|&page| page.to_owned()).collect();
    assert_eq!(tested, with_commands, "each page with commands has a test");
}

#[test]
fn shown_output_fits_what_is_printed() {
    for (shown, printed, expected) in [
        ("a  b\n", "a b", true),
        ("a b", "a c", false),
        ("a … c", "a b b c", true),
        ("a … c", "a b b c d", false),
        ("a …", "a b\nc", true),
        ("…\nc", "a\nb\nc", true),
        ("a … b … c", "a x b c b c", true),
        ("a … b … c", "a c b", false),
        ("a", "ab", false),
        ("", "", true),
    ] {
        assert_eq!(fits(shown, printed), expected, "{shown:?}, {printed:?}");
    }
}

#[test]
fn a_page_is_split_into_blocks() {
    let page = "```sh\na\n```\n\n```text\nb\n```\nwords\n<!-- sh\nc\n-->\n```sh not-run=\"needs root\"\nd\n```\n```\n```\n";
    let all = blocks(page);
    let found: Vec<_> = all
        .iter()
        .map(|it| (it.info, it.text.trim(), it.follows))
        .collect();
    let expected = [
        ("sh", "a", false),
        ("text", "b", true),
        ("sh", "c", false),
        ("sh not-run=\"needs root\"", "d", true),
        ("", "", true),
    ];
    assert_eq!(found, expected);
}

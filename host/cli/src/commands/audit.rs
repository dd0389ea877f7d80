//! `host audit`: who changed what, or was not allowed to, and whether the record is whole.

use clap::{Args, Subcommand};
use host_api::audit::{AuditQuery, EntryView, RecordView};
use host_api::client::{Client, Item};
use host_console::error::{CliError, Exit, cannot};
use host_console::options::Remote;
use host_console::output::{Output, put_line};
use host_console::table::{Cell, Column, Rows};
use host_console::{human, plain, waiting};
use host_core::hex::{from_hex, hex};
use host_core::query::PAGE_ITEMS_MAX;
use host_engine::audit::{Chain, Entry};
use serde_json::json;

use super::moment::{self, Moment};

/// How long to wait for the next entries, in milliseconds.
const FOLLOW_MS: u64 = 1_000;

/// Show who changed what, or was not allowed to, and check that the record is whole.
#[derive(Debug, Args)]
pub(crate) struct Audit {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the entries of the audit, oldest first
    #[command(after_help = "\
Examples:
  host audit ls --limit 20
  host audit ls --since 1d --principal ci --verb deploy
  host audit ls -f -o jsonl")]
    Ls(Ls),
    /// Check that no entry was changed, removed or inserted
    #[command(after_help = "Example:\n  host audit verify")]
    Verify(Remote),
}

#[derive(Debug, Args)]
struct Ls {
    /// Only entries since this time, or within this duration
    #[arg(long, value_name = "TIME|DURATION", value_parser = moment::parse)]
    since: Option<Moment>,
    /// Only entries of this principal: a token's name, token:ID, uid:NUMBER or host
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
    /// Only entries with this verb
    #[arg(long, value_name = "VERB")]
    verb: Option<String>,
    /// Only the last N entries
    #[arg(long, value_name = "N", value_parser = human::whole::<usize>(1, 1_000_000), conflicts_with = "follow")]
    limit: Option<usize>,
    /// Follow the audit: print new entries as they come
    #[arg(short, long)]
    follow: bool,
    #[command(flatten)]
    remote: Remote,
}

impl Audit {
    /// Runs the verb.
    pub(crate) fn run(self) -> Result<(), CliError> {
        match self.verb {
            Verb::Ls(ls) => self::ls(ls),
            Verb::Verify(remote) => verify(&remote),
        }
    }
}

fn ls(ls: Ls) -> Result<(), CliError> {
    let (client, output) = ls.remote.open()?;
    let [since] = moment::texts([&ls.since], &client)?;
    let mut query = AuditQuery {
        since,
        principal: ls.principal,
        verb: ls.verb,
        limit: Some(PAGE_ITEMS_MAX),
        cursor: None,
    };
    let mut all = Vec::new();
    let mut last = 0;
    loop {
        let page = client.audit(&query).map_err(cannot("list the audit"))?;
        let next = page.view.next_cursor;
        let items = page.view.items;
        last = items.last().map_or(last, |item| item.view.number);
        if ls.follow {
            items.iter().try_for_each(|item| line(output, item))?;
            if next.is_none() {
                waiting::pause(FOLLOW_MS);
            }
            query.cursor = Some(next.unwrap_or_else(|| last.to_string()));
            continue;
        }
        all.extend(items);
        all.drain(..ls.limit.map_or(0, |limit| all.len().saturating_sub(limit)));
        query.cursor = next;
        if query.cursor.is_none() {
            break;
        }
    }
    output.list(&all, |entry| &entry.hash, || table(&all))?;
    output.hint("`host audit verify` checks that no entry was changed or removed");
    Ok(())
}

fn record(item: &Item<EntryView>) -> RecordView {
    item.view.record().unwrap_or_default()
}

fn table(items: &[Item<EntryView>]) -> Rows {
    let mut rows = Rows::new(&[
        Column::Right("N"),
        Column::Left("TIME"),
        Column::Left("PRINCIPAL"),
        Column::Left("VERB"),
        Column::Left("OBJECT"),
        Column::Left("OUTCOME"),
        Column::Left("DETAIL"),
    ]);
    for item in items {
        let record = record(item);
        rows.row(vec![
            Cell::new(item.view.number.to_string()),
            Cell::new(plain::line(&record.at)),
            Cell::new(plain::line(principal(&record))),
            Cell::new(plain::line(&record.verb)),
            Cell::new(plain::line(&record.object)),
            Cell::new(outcome(&record)),
            Cell::new(plain::line(record.detail.as_deref().unwrap_or_default())),
        ]);
    }
    rows
}

/// Returns who asked, by the name of the token where it has one.
fn principal(record: &RecordView) -> &str {
    record.token_name.as_deref().unwrap_or(&record.principal)
}

fn outcome(record: &RecordView) -> String {
    let outcome = plain::line(&record.outcome);
    match record.times {
        0 | 1 => outcome.into_owned(),
        times => format!("{outcome} ({times} times)"),
    }
}

/// Prints one entry that has just come.
fn line(output: Output, item: &Item<EntryView>) -> Result<(), CliError> {
    if !output.is_human() {
        return output.json(item.json.get());
    }
    let record = record(item);
    let detail = record.detail.as_deref().map(plain::line);
    let line = format!(
        "{} {} {} {} {} {}",
        plain::line(&record.at),
        plain::line(principal(&record)),
        plain::line(&record.verb),
        plain::line(&record.object),
        outcome(&record),
        detail.unwrap_or_default(),
    );
    put_line(line.trim_end())
}

fn verify(remote: &Remote) -> Result<(), CliError> {
    let (client, output) = remote.open()?;
    let mut chain = Chain::default();
    let mut entries = 0_u64;
    let broken = |number: u64, flaw: &str| {
        let cause = format!("entry {number}: {flaw}");
        CliError::new(Exit::Failed, "verify the audit", cause)
            .next("compare the audit with its exported file or a backup")
    };
    each(&client, |entry| {
        entries += 1;
        let number = entry.number;
        let flaw = match read(&entry) {
            Some(entry) => chain.follow(entry),
            None => Some("it cannot be read"),
        };
        flaw.map_or(Ok(()), |flaw| Err(broken(number, flaw)))
    })?;
    if let Some((number, flaw)) = chain.flaw_at_start() {
        return Err(broken(number, flaw));
    }
    let last = chain.last().map(|last| (last.number, hex(&last.hash)));
    let (number, hash) = last.clone().unzip();
    let document = json!({ "entries": entries, "number": number, "hash": hash });
    let name = hash.unwrap_or_default();
    output.print_item(&document.to_string(), &name, || {
        put_line(&match last {
            Some((number, hash)) => {
                format!("{entries} entries verified; the hash of entry {number} is {hash}")
            }
            None => "the audit has no entries".to_owned(),
        })
    })?;
    if entries > 0 {
        output.hint(
            "keep the last line elsewhere: later it proves that the entries up to it are unchanged",
        );
    }
    Ok(())
}

/// Calls `see` with each entry, oldest first.
fn each(
    client: &Client,
    mut see: impl FnMut(EntryView) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let mut query = AuditQuery {
        limit: Some(PAGE_ITEMS_MAX),
        ..AuditQuery::default()
    };
    loop {
        let page = client.audit(&query).map_err(cannot("verify the audit"))?;
        for item in page.view.items {
            see(item.view)?;
        }
        query.cursor = page.view.next_cursor;
        if query.cursor.is_none() {
            return Ok(());
        }
    }
}

/// Reads an entry back. `None` if a hash is invalid.
fn read(view: &EntryView) -> Option<Entry> {
    let previous = from_hex(&view.previous)?;
    let record = view.record.get().to_owned();
    let shown = from_hex(&view.hash)?;
    let entry = Entry {
        number: view.number,
        at: host_core::time::Time::default(),
        hash: shown,
        previous,
        record,
    };
    Some(entry)
}

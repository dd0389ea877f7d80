//! Programs as people write them. Each is run by a test, in a cell and with the mock host, and returns what `cases.json` says.

mod documents;
mod money;
mod remote;
mod texts;
mod waiting;

use documents::{archive, export, feed, gzip, order, picture, sheet, write_order};
use guest_sdk::export_handlers;
use money::{by_month, exchange, invoice, overdue};
use remote::{find_pet, form, new_pet, pages, token, urls, webhook};
use texts::{config, mail, names, scrape, to_html, words};
use waiting::{again, import_rows, seen};

macro_rules! programs {
    ($($handler:ident),+ $(,)?) => {
        export_handlers!($($handler),+);

        #[cfg(test)]
        const PROGRAMS: &[(&str, tests::Program)] = &[$(($handler::NAME, $handler::call)),+];
    };
}

programs!(
    again,
    archive,
    by_month,
    config,
    exchange,
    export,
    feed,
    find_pet,
    form,
    gzip,
    import_rows,
    invoice,
    mail,
    names,
    new_pet,
    order,
    overdue,
    pages,
    picture,
    scrape,
    seen,
    sheet,
    to_html,
    token,
    urls,
    webhook,
    words,
    write_order,
);

#[cfg(test)]
mod tests {
    use guest_sdk::{Ctx, Error, HttpResponse, MockHost};
    use serde_json::{Value, json};

    use super::PROGRAMS;

    pub(super) type Program = fn(&Ctx, &str) -> Result<String, Error>;

    const ORIGIN: &str = "http://corpus.example";

    /// Makes a host that answers as `answers.json` says.
    fn host() -> MockHost {
        MockHost::new().answer(|request| {
            let answers: Value = serde_json::from_str(include_str!("../answers.json")).unwrap();
            let answer = &answers[request.url.trim_start_matches(ORIGIN)];
            let status = u16::try_from(answer[0].as_u64().unwrap()).unwrap();
            let body: Value = serde_json::from_str(answer[1].as_str().unwrap()).unwrap();
            Ok(HttpResponse::json_of(status, &body))
        })
    }

    /// Returns how an attempt of a handler ends.
    fn end(host: &MockHost, case: &Value) -> Value {
        let (_, program) = PROGRAMS
            .iter()
            .find(|(name, _)| case["handler"] == *name)
            .unwrap();
        let params = case["params"].to_string();
        match host.run(|ctx| program(ctx, &params)) {
            Ok(result) => json!({"result": serde_json::from_str::<Value>(&result).unwrap()}),
            Err(Error::Retry { after_ms, .. }) => json!({"retry": after_ms}),
            Err(Error::Failed(failed)) => {
                let failed = *failed;
                json!({"failure": {"kind": failed.kind, "code": failed.code, "message": failed.message}})
            }
            Err(cancelled) => panic!("{cancelled:?}"),
        }
    }

    #[test]
    fn each_case_ends_as_in_a_cell() {
        let document = include_str!("../cases.json").replace("{origin}", ORIGIN);
        let cases: Vec<Value> = serde_json::from_str(&document).unwrap();
        for case in &cases {
            if case["retries"] == true {
                assert!(end(&host(), case)["retry"].is_number(), "{case}");
                assert_eq!(end(&host().attempt(2), case), case["then"], "{case}");
            } else {
                assert_eq!(end(&host(), case), case["then"], "{case}");
            }
        }
        for (name, _) in PROGRAMS {
            assert!(
                cases.iter().any(|case| case["handler"] == *name),
                "{name} has no case"
            );
        }
    }
}

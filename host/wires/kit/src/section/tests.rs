//! What the types of values accept, and where errors say a value is.

use std::collections::BTreeMap;
use std::path::Path;

use super::*;

crate::settings! {
    struct Keys "" {
        /// A number
        number ["number"] "N": Number<1, 256, 7>,
        /// A duration
        seconds "SECONDS": Seconds<0, 20, 3>,
        /// A switch
        switch: bool,
        /// A list
        list "ITEMS": At<List<String, 2>>,
        /// An address
        listen "ADDR": Option<At<Listen>> = "off",
        ..
        tables: Tables<Table>,
    }
    struct Table "tables.NAME." {
        /// A text
        text "TEXT": Option<At<String>>,
    }
}

fn read(environment: &[(&str, &str)], file: &str) -> Result<Keys, String> {
    let owned = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
    let environment = environment.iter().map(owned).collect();
    let document = Document::parse(Path::new("host.toml"), file);
    let keys = Keys::SETTINGS.iter().chain(Table::SETTINGS);
    let read = document.and_then(|it| it.with(keys, &environment, &BTreeMap::new()).read(""));
    read.map_err(|error| error.to_string())
}

#[test]
fn a_text_of_a_variable_is_read_as_the_type_of_its_key() {
    let environment = [
        ("HOST_NUMBER", "256"),
        ("HOST_SECONDS", "1.5"),
        ("HOST_SWITCH", "true"),
        ("HOST_LIST", "a, b,"),
        ("HOST_LISTEN", "127.0.0.1:1"),
    ];
    let keys = read(&environment, "number = 9\nlist = ['c']").unwrap();
    assert_eq!(
        (keys.number.get(), keys.seconds.get(), keys.switch),
        (256, 1_500, true)
    );
    assert_eq!(keys.list.value, List(vec!["a".to_owned(), "b".to_owned()]));
    assert_eq!(keys.list.origin, "HOST_LIST");
    let address = keys.listen.unwrap().loopback().unwrap();
    assert_eq!(address, Some(([127, 0, 0, 1], 1).into()));
    let keys = read(&[], "\n[tables.'a.b']\ntext = 'x'\n[tables.c]\ntext = ''").unwrap();
    assert_eq!(
        (keys.number.get(), keys.seconds.get(), keys.switch),
        (7, 3_000, false)
    );
    let origins = keys.tables.values().map(|table| {
        let text = table.text.as_ref().map(|text| text.origin.clone());
        (table.origin.clone(), text)
    });
    let text = "host.toml:3: tables.a.b.text".to_owned();
    let expected = [
        ("host.toml:2: tables.a.b".to_owned(), Some(text)),
        ("host.toml:4: tables.c".to_owned(), None),
    ];
    assert!(origins.eq(expected));
}

#[test]
fn an_error_names_the_line_the_key_and_what_is_expected() {
    for (environment, file, expected) in [
        (
            &[][..],
            "\nnumber = 0",
            "host.toml:2: number: invalid value `0`: expected 1–256",
        ),
        (
            &[],
            "number = -1",
            "host.toml:1: number: invalid value `-1`: expected 1–256",
        ),
        (
            &[],
            "number = 'x'",
            "host.toml:1: number: expected 1–256, got a string",
        ),
        (
            &[],
            "seconds = 21",
            "host.toml:1: seconds: invalid value `21`: expected 0–20 seconds",
        ),
        (
            &[],
            "list = ['a',\n7]",
            "host.toml:2: list[2]: expected a string, got an integer",
        ),
        (
            &[],
            "list = ['a', 'b', 'c']",
            "host.toml:1: list: expected at most 2 items",
        ),
        (
            &[],
            "tables = 1",
            "host.toml:1: tables: expected a table, got an integer",
        ),
        (
            &[],
            "tables.a = 1",
            "host.toml:1: tables.a: expected a table, got an integer",
        ),
        (
            &[],
            "[tables.'a b']",
            "expected a name; a name may contain only",
        ),
        (
            &[],
            "[tables.a]\ntxt = 1",
            "host.toml:2: unknown key `tables.a.txt`; did you mean `tables.NAME.text`?",
        ),
        (&[], "[color]", "host.toml:1: unknown key `color`"),
        (
            &[],
            "number =\n",
            "cannot read the configuration host.toml: line 1: ",
        ),
        (
            &[("HOST_NUMBER", "300")],
            "",
            "HOST_NUMBER: invalid value `300`: expected 1–256",
        ),
        (
            &[("HOST_NUMBER", "s3cret")],
            "",
            "HOST_NUMBER: expected 1–256",
        ),
        (
            &[("HOST_SWITCH", "s3cret")],
            "",
            "HOST_SWITCH: expected true or false",
        ),
        (
            &[("HOST_LISTEN", "7700")],
            "",
            "HOST_LISTEN: invalid value `7700`: expected an address",
        ),
    ] {
        let message = read(environment, file).err().unwrap_or_default();
        assert!(message.contains(expected), "{file}: {message}");
        assert!(!message.contains("s3cret"), "{message}");
    }
}

#[test]
fn the_documents_say_what_messages_say() {
    let rows = Keys::SETTINGS.iter().map(|setting| {
        let flag = setting.flag.unwrap_or_default();
        (flag, setting.values(), (setting.default)(), setting.about)
    });
    let expected = [
        ("number", "1–256", "7", "A number"),
        ("", "0–20", "3", "A duration"),
        ("", "true, false", "false", "A switch"),
        ("", "ITEMS", "none", "A list"),
        ("", "ADDR", "off", "An address"),
    ]
    .map(|(flag, values, default, about)| (flag, values.to_owned(), default.to_owned(), about));
    assert!(rows.eq(expected));
    assert_eq!(Table::SETTINGS[0].key, "tables.NAME.text");
}

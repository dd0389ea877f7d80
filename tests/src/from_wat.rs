//! Assembles the components in `tests/guests/wat`, which no compiler would make.

use std::path::PathBuf;

/// Where the text of a schema is in a component's memory.
const TEXT_AT: u32 = 1 << 16;

/// Assembles the component `name`.
///
/// # Panics
///
/// If there is no such file, or it is wrong.
pub fn component(name: &str) -> Vec<u8> {
    let path = folder().join(format!("{name}.wat"));
    wat::parse_file(&path).unwrap_or_else(|error| panic!("{error}"))
}

/// Assembles a component whose handler `by_hand` returns nothing and has this schema of its params.
///
/// # Panics
///
/// If the file that it is made from is gone.
pub fn with_schema(schema: &str) -> Vec<u8> {
    handler_with_schema("by_hand", schema)
}

/// Does the same for a handler with another name of seven bytes.
///
/// # Panics
///
/// If the file that it is made from is gone, or the name has another length.
pub fn handler_with_schema(handler: &str, schema: &str) -> Vec<u8> {
    assert_eq!(handler.len(), 7, "the component says how long the name is");
    let good = std::fs::read_to_string(folder().join("good.wat")).expect("it is there");
    let escaped = |bytes: &[u8]| {
        let bytes = bytes.iter().map(|byte| format!("\\{byte:02x}"));
        bytes.collect::<Vec<_>>().concat()
    };
    let length = u32::try_from(schema.len()).expect("no schema is that long");
    let text = escaped(schema.as_bytes());
    let pages = 2 + schema.len() / (1 << 16);
    let memory = format!("(memory (export \"memory\") {pages})\n");
    // The field `params-schema` of the handler's description, and the text.
    let data = format!(
        "(data (i32.const 84) \"\\01\\00\\00\\00{}{}\")\n(data (i32.const {TEXT_AT}) \"{text}\")\n",
        escaped(&TEXT_AT.to_le_bytes()),
        escaped(&length.to_le_bytes())
    );
    let changed = good
        .replace("(memory (export \"memory\") 1)", &memory)
        .replace(
            "(data (i32.const 512) \"by_hand\"",
            &format!("{data}(data (i32.const 512) \"{handler}\""),
        );
    wat::parse_str(changed).unwrap_or_else(|error| panic!("{error}"))
}

/// Assembles a component with handlers of these names, which return `{}`.
///
/// # Panics
///
/// If the file that it is made from is gone, or the names are too many.
pub fn with_handlers(names: &[&str]) -> Vec<u8> {
    const RECORDS: usize = 64;
    const RECORD: usize = 44;
    const NAMES: usize = 2048;
    const HEAP: usize = 4096;
    let good = std::fs::read_to_string(folder().join("good.wat")).expect("it is there");
    let escaped = |bytes: &[u8]| {
        let bytes = bytes.iter().map(|byte| format!("\\{byte:02x}"));
        bytes.collect::<Vec<_>>().concat()
    };
    let number = |number: usize| u32::try_from(number).expect("it is small").to_le_bytes();
    let (mut records, mut all) = (Vec::new(), String::new());
    for name in names {
        records.extend(number(NAMES + all.len()));
        records.extend(number(name.len()));
        records.extend([0; RECORD - 8]);
        all += name;
    }
    assert!(RECORDS + records.len() <= NAMES && NAMES + all.len() + 2 <= HEAP);
    let text = number(NAMES + all.len());
    // The result, some text, and then the list of handlers.
    let head = [number(1), text, number(2)].concat();
    let list = [number(RECORDS), number(names.len())].concat();
    let data = format!(
        "(data (i32.const 16) \"{}\")\n(data (i32.const 36) \"{}\")\n(data (i32.const {RECORDS}) \"{}\")\n\
         (data (i32.const {NAMES}) \"{all}{{}}\")\n",
        escaped(&list),
        escaped(&head),
        escaped(&records),
    );
    let start = "(func (export \"realloc\")";
    let lines: String = good
        .lines()
        .filter(|line| !line.trim().starts_with("(data "))
        .flat_map(|line| [line, "\n"])
        .collect();
    let assembled = lines.replacen(start, &format!("{data}{start}"), 1);
    wat::parse_str(assembled).unwrap_or_else(|error| panic!("{error}"))
}

/// The imports of `host:jobs/http` and `host:jobs/jobs`.
const IMPORTS: &str = r#"
  (import "host:jobs/http@1.1.0" (instance
    (type $request-record (record (field "method" string) (field "url" string)
      (field "headers" (list (tuple string string))) (field "body" (list u8))
      (field "timeout-ms" (option u32))))
    (export "request" (type $request (eq $request-record)))
    (type $response-record (record (field "status" u16)
      (field "headers" (list (tuple string string))) (field "body" (list u8))))
    (export "response" (type $response (eq $response-record)))
    (type $kind-enum (enum "not-granted" "invalid-request" "unreachable" "timed-out" "too-large"
      "limit-reached" "unavailable"))
    (export "error-kind" (type $kind (eq $kind-enum)))
    (type $error-record (record (field "kind" $kind) (field "message" string)))
    (export "error" (type $error (eq $error-record)))
    (export "send" (func (param "request" $request) (result (result $response (error $error)))))))
  (import "host:jobs/jobs@1.1.0" (instance
    (type $kind-enum (enum "not-granted" "invalid-request" "limit-reached" "unavailable"))
    (export "error-kind" (type $kind (eq $kind-enum)))
    (type $error-record (record (field "kind" $kind) (field "message" string)))
    (export "error" (type $error (eq $error-record)))
    (export "enqueue" (func (param "jobs" string) (result (result (list string) (error $error)))))))
"#;

/// Assembles a component whose handler, with a name of seven bytes, returns nothing and which imports interfaces that
/// it does not use.
///
/// # Panics
///
/// If the file that it is made from is gone, or the name has another length.
pub fn importing(handler: &str) -> Vec<u8> {
    assert_eq!(handler.len(), 7, "the component says how long the name is");
    let good = std::fs::read_to_string(folder().join("good.wat")).expect("it is there");
    let changed = good
        .replacen("(component\n", &format!("(component\n{IMPORTS}"), 1)
        .replace("\"by_hand\"", &format!("\"{handler}\""));
    wat::parse_str(changed).unwrap_or_else(|error| panic!("{error}"))
}

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/guests/wat"))
}

#[test]
fn all_wat_components_can_be_assembled() {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let layer = component(&name)[6];
        assert_eq!(layer, u8::from(name != "core-module"), "{name}");
        names.push(name);
    }
    assert!(names.len() > 20, "{names:?}");
}

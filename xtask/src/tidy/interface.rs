//! What the SDKs in other languages know of the interface is generated from its WIT. With `UPDATE_DOCS=1` in the
//! environment, the files are written.

mod python;
mod typescript;

use wit_parser::{
    Docs, Function, Interface, Resolve, Type, TypeDef, TypeDefKind, TypeOwner, WorldItem,
};

use crate::cargo::root;

const WIT: &str = "wit/host-jobs-1.2.0";

/// Types of this interface have no prefix.
const SHARED: &str = "types";

/// A language that declarations are written in.
trait Language {
    const FILE: &'static str;
    const HEAD: &'static str;
    fn define(&self, name: &str, definition: &TypeDef) -> String;
    fn interface(&self, name: &str, interface: &Interface) -> String;
    /// The whole of all interfaces, given their names.
    fn host(&self, interfaces: &[&str]) -> String;
}

#[test]
fn the_sdks_have_the_interface() {
    let mut wit = Resolve::default();
    let (package, _) = wit.push_path(root().join(WIT)).unwrap();
    let world = wit.select_world(&[package], None).unwrap();
    let imports = wit.worlds[world].imports.values();
    let interfaces: Vec<&Interface> = imports
        .filter_map(|item| match item {
            WorldItem::Interface { id, .. } => Some(&wit.interfaces[*id]),
            _ => None,
        })
        .collect();
    compare(&python::Python { wit: &wit }, &wit, &interfaces);
    compare(&typescript::TypeScript { wit: &wit }, &wit, &interfaces);
}

fn compare<L: Language>(language: &L, wit: &Resolve, interfaces: &[&Interface]) {
    let mut text = L::HEAD.to_owned();
    let mut offered = Vec::new();
    for interface in interfaces {
        for id in interface.types.values() {
            let definition = &wit.types[*id];
            if !matches!(definition.kind, TypeDefKind::Type(_)) {
                text += &language.define(&type_name(wit, definition), definition);
            }
        }
        let name = interface.name.as_deref().unwrap();
        if !interface.functions.is_empty() {
            text += &language.interface(name, interface);
            offered.push(name);
        }
    }
    text += &language.host(&offered);
    let path = root().join(L::FILE);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == text,
        "{} is not of {WIT}: UPDATE_DOCS=1 cargo test -p xtask",
        L::FILE
    );
}

/// Returns the name of a type as all languages write it: `HttpRequest`.
fn type_name(wit: &Resolve, definition: &TypeDef) -> String {
    let name = definition.name.as_deref().unwrap();
    let TypeOwner::Interface(owner) = definition.owner else {
        panic!("{name} has no interface")
    };
    let owner = wit.interfaces[owner].name.as_deref().unwrap();
    let prefix = if owner == SHARED { "" } else { owner };
    pascal(prefix) + &pascal(name)
}

/// Returns the definition that a name refers to.
fn definition<'a>(wit: &'a Resolve, ty: &Type) -> Option<&'a TypeDef> {
    let Type::Id(id) = ty else { return None };
    let definition = &wit.types[*id];
    match &definition.kind {
        TypeDefKind::Type(Type::Id(_)) => {
            let TypeDefKind::Type(of) = &definition.kind else {
                return None;
            };
            self::definition(wit, of)
        }
        _ => Some(definition),
    }
}

/// Returns what a function returns, and what it fails with.
fn answer<'a>(wit: &'a Resolve, function: &'a Function) -> (Option<&'a Type>, Option<&'a Type>) {
    let result = function.result.as_ref();
    match result.and_then(|it| definition(wit, it)).map(|it| &it.kind) {
        Some(TypeDefKind::Result(result)) => (result.ok.as_ref(), result.err.as_ref()),
        _ => (result, None),
    }
}

fn pascal(name: &str) -> String {
    name.split('-')
        .map(|word| {
            let (first, rest) = word.split_at(word.len().min(1));
            first.to_uppercase() + rest
        })
        .collect()
}

fn documented(docs: &Docs) -> &str {
    docs.contents.as_deref().unwrap_or_default().trim()
}

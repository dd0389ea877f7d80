//! Names and shapes of a translation in Rust code, and how many of each are left. A row only ever gets smaller.

use std::collections::BTreeMap;

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::visit::{self, Visit};
use syn::{Block, Expr, FnArg, Ident, Local, Pat, Signature, Stmt};

use super::files;

/// A shape, how many places may still have it, and the cure.
const ALLOWED: [(&str, usize, &str); 5] = [
    (BINDING, 1, "write `let _ =`, or name the guard"),
    (TYPE, 0, "name it with a noun of the domain"),
    (FUNCTION, 233, "name it with a verb and its object"),
    (REBOUND, 70, "name the second value, or chain the calls"),
    (TUPLE, 71, "pass arguments, or a struct"),
];

const BINDING: &str = "a binding named for a comment";
const TYPE: &str = "a type named with a participle alone";
const FUNCTION: &str = "a function named with a participle or an adjective alone";
const REBOUND: &str = "a name bound again in the next statement";
const TUPLE: &str = "a tuple as a parameter";

/// The names of guards, which live until the end of their block.
const GUARDS: &str = "body broker farewell guard host hosts listener lock orchestrator reader runtime server socket span \
    stops stream worker workers";

/// Participles and other words that name nothing by themselves.
const BARE: &str = "all answered asked chosen closed denied ended found given gone granted heard held kept left looked \
    lost made named of one opened over parsed placed read refused seen sent shown started stopped stored taken told \
    todo turned waiting written";

/// Verbs among them, which name functions well.
const VERBS: &str = "left lost named over parsed placed read started stopped";

fn has(list: &str, name: &str) -> bool {
    list.split_whitespace().any(|word| word == name)
}

#[derive(Default)]
struct NameReport {
    file: String,
    places: BTreeMap<&'static str, Vec<String>>,
}

impl NameReport {
    fn add(&mut self, shape: &'static str, name: &impl ToString) {
        let place = format!("{}: {}", self.file, name.to_string());
        self.places.entry(shape).or_default().push(place);
    }

    fn check_type(&mut self, name: &Ident) {
        if has(BARE, &name.to_string().to_lowercase()) {
            self.add(TYPE, name);
        }
    }
}

/// Returns the name that a statement binds, and its value.
fn binding(local: &Local) -> Option<(&Ident, &Expr)> {
    let mut pat = &local.pat;
    if let Pat::Type(typed) = pat {
        pat = &typed.pat;
    }
    match (pat, &local.init) {
        (Pat::Ident(name), Some(init)) => Some((&name.ident, &init.expr)),
        _ => None,
    }
}

/// Returns whether code has a name, macros included.
fn mentions(code: TokenStream, name: &Ident) -> bool {
    code.into_iter().any(|token| match token {
        TokenTree::Group(group) => mentions(group.stream(), name),
        TokenTree::Ident(ident) => ident == *name,
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

impl Visit<'_> for NameReport {
    fn visit_block(&mut self, block: &Block) {
        for pair in block.stmts.windows(2) {
            let [Stmt::Local(first), Stmt::Local(second)] = pair else {
                continue;
            };
            if let (Some((before, _)), Some((name, value))) = (binding(first), binding(second))
                && before == name
                && mentions(value.to_token_stream(), name)
            {
                self.add(REBOUND, name);
            }
        }
        visit::visit_block(self, block);
    }

    fn visit_local(&mut self, local: &Local) {
        if let Some((name, _)) = binding(local) {
            let text = name.to_string();
            if text.len() > 1 && text.strip_prefix('_').is_some_and(|it| !has(GUARDS, it)) {
                self.add(BINDING, name);
            }
        }
        visit::visit_local(self, local);
    }

    fn visit_signature(&mut self, signature: &Signature) {
        let name = signature.ident.to_string();
        if has(BARE, &name) && !has(VERBS, &name) {
            self.add(FUNCTION, &name);
        }
        for input in &signature.inputs {
            if let FnArg::Typed(input) = input {
                let mut ty = &*input.ty;
                while let syn::Type::Reference(reference) = ty {
                    ty = &reference.elem;
                }
                if matches!(ty, syn::Type::Tuple(tuple) if !tuple.elems.is_empty()) {
                    self.add(TUPLE, &name);
                }
            }
        }
        visit::visit_signature(self, signature);
    }

    fn visit_item_enum(&mut self, item: &syn::ItemEnum) {
        self.check_type(&item.ident);
        visit::visit_item_enum(self, item);
    }

    fn visit_item_struct(&mut self, item: &syn::ItemStruct) {
        self.check_type(&item.ident);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_type(&mut self, item: &syn::ItemType) {
        self.check_type(&item.ident);
        visit::visit_item_type(self, item);
    }
}

#[test]
fn names_of_a_translation_become_fewer() {
    let mut found = NameReport::default();
    for (path, text) in files(".rs") {
        let file =
            syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        found.file = path.display().to_string();
        found.visit_file(&file);
    }
    let mut wrong = Vec::new();
    for (shape, allowed, cure) in ALLOWED {
        let places = found.places.remove(shape).unwrap_or_default();
        let count = places.len();
        if count > allowed {
            let places = places.join("\n");
            wrong.push(format!(
                "{count} places have {shape}, more than {allowed}: {cure}\n{places}"
            ));
        } else if count + 10 < allowed {
            wrong.push(format!(
                "{count} places have {shape}, fewer than {allowed}: lower its row"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

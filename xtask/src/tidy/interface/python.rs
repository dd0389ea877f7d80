//! The interface in Python: dataclasses, enumerations and protocols.

use wit_parser::{Docs, Interface, Resolve, Type, TypeDef, TypeDefKind};

use super::{Language, answer, definition, documented, pascal, type_name};

pub(super) struct Python<'a> {
    pub(super) wit: &'a Resolve,
}

impl Language for Python<'_> {
    const FILE: &'static str = "sdk/python/host_jobs/interface.py";

    const HEAD: &'static str = "\
\"\"\"What the host offers to handlers. Generated from the WIT package host:jobs@1.2.0.\"\"\"

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol, Union
";

    fn define(&self, name: &str, definition: &TypeDef) -> String {
        let about = doc(&definition.docs, 4);
        match &definition.kind {
            TypeDefKind::Enum(cases) => {
                let cases: String = cases
                    .cases
                    .iter()
                    .map(|case| {
                        let key = case.name.replace('-', "_").to_uppercase();
                        format!("    {key} = \"{}\"\n{}", case.name, doc(&case.docs, 4))
                    })
                    .collect::<Vec<_>>()
                    .concat();
                format!("\n\nclass {name}(Enum):\n{about}\n{cases}")
            }
            TypeDefKind::Record(record) => {
                let mut fields = String::new();
                let mut has_default = true;
                // A field with a default is followed by none without.
                for field in record.fields.iter().rev() {
                    has_default &= self.is_optional(&field.ty);
                    let default = if has_default { " = None" } else { "" };
                    let (key, ty) = (field.name.replace('-', "_"), self.name(&field.ty));
                    let field = format!("    {key}: {ty}{default}\n{}", doc(&field.docs, 4));
                    fields.insert_str(0, &field);
                }
                let (dataclass, base) = if name.ends_with("Error") && name != "JobError" {
                    ("dataclass(eq=False)", "(Exception)")
                } else {
                    ("dataclass", "")
                };
                format!("\n\n@{dataclass}\nclass {name}{base}:\n{about}\n{fields}")
            }
            TypeDefKind::Variant(variant) => {
                let cases: String = variant
                    .cases
                    .iter()
                    .map(|case| {
                        let value = case
                            .ty
                            .as_ref()
                            .map(|ty| format!("\n    value: {}\n", self.name(ty)));
                        let (about, value) = (doc(&case.docs, 4), value.unwrap_or_default());
                        let key = pascal(&case.name);
                        format!("\n\n@dataclass\nclass {name}{key}:\n{about}{value}")
                    })
                    .collect::<Vec<_>>()
                    .concat();
                let names: Vec<_> = variant
                    .cases
                    .iter()
                    .map(|case| pascal(&case.name))
                    .map(|case| format!("{name}{case}"))
                    .collect();
                let about = doc(&definition.docs, 0);
                let names = names.join(", ");
                format!("{cases}\n\n{name} = Union[{names}]\n{about}")
            }
            _ => String::new(),
        }
    }

    fn interface(&self, name: &str, interface: &Interface) -> String {
        let mut text = format!("\n\nclass {}(Protocol):\n", pascal(name));
        text += &doc(&interface.docs, 4);
        for function in interface.functions.values() {
            let params: String = function
                .params
                .iter()
                .map(|param| {
                    format!(
                        ", {}: {}",
                        param.name.replace('-', "_"),
                        self.name(&param.ty)
                    )
                })
                .collect::<Vec<_>>()
                .concat();
            let (ok, err) = answer(self.wit, function);
            let ok = ok.map_or_else(|| "None".to_owned(), |ty| self.name(ty));
            let name = function.name.replace('-', "_");
            let mut about = documented(&function.docs).to_owned();
            if let Some(err) = err {
                about = format!("{about}\n\nRaises {}.", self.name(err));
            }
            let about = quoted(&about, 8);
            text = format!("{text}\n    def {name}(self{params}) -> {ok}:\n{about}        ...\n");
        }
        text
    }

    fn host(&self, interfaces: &[&str]) -> String {
        let fields: String = interfaces
            .iter()
            .map(|name| {
                let ty = pascal(name);
                format!("\n    @property\n    def {name}(self) -> {ty}: ...\n")
            })
            .collect::<Vec<_>>()
            .concat();
        format!("\n\nclass Host(Protocol):\n    \"\"\"All that the host offers.\"\"\"\n{fields}")
    }
}

impl Python<'_> {
    fn is_optional(&self, ty: &Type) -> bool {
        definition(self.wit, ty).is_some_and(|it| matches!(it.kind, TypeDefKind::Option(_)))
    }

    fn name(&self, ty: &Type) -> String {
        let name = match ty {
            Type::Bool => "bool",
            Type::F32 | Type::F64 => "float",
            Type::String | Type::Char => "str",
            Type::U8 | Type::U16 | Type::U32 | Type::S8 | Type::S16 | Type::S32 => "int",
            _ => return self.defined(ty),
        };
        name.to_owned()
    }

    fn defined(&self, ty: &Type) -> String {
        let definition = definition(self.wit, ty).unwrap();
        match &definition.kind {
            TypeDefKind::Option(of) => format!("{} | None", self.name(of)),
            TypeDefKind::List(Type::U8) => "bytes".to_owned(),
            TypeDefKind::List(of) => format!("list[{}]", self.name(of)),
            TypeDefKind::Tuple(of) => {
                let of: Vec<_> = of.types.iter().map(|ty| self.name(ty)).collect();
                format!("tuple[{}]", of.join(", "))
            }
            TypeDefKind::Type(of) => self.name(of),
            _ => type_name(self.wit, definition),
        }
    }
}

fn doc(docs: &Docs, indent: usize) -> String {
    quoted(documented(docs), indent)
}

fn quoted(text: &str, indent: usize) -> String {
    if text.is_empty() {
        return String::new();
    }
    let margin = " ".repeat(indent);
    let text = text
        .replace('\n', &format!("\n{margin}"))
        .replace(&format!("\n{margin}\n"), "\n\n");
    format!("{margin}\"\"\"{text}\"\"\"\n")
}

//! The interface in TypeScript: unions of texts, and interfaces.

use wit_parser::{Docs, Interface, Resolve, Type, TypeDef, TypeDefKind};

use super::{Language, answer, definition, documented, pascal, type_name};

pub(super) struct TypeScript<'a> {
    pub(super) wit: &'a Resolve,
}

impl Language for TypeScript<'_> {
    const FILE: &'static str = "sdk/js/src/interface.d.ts";

    const HEAD: &'static str =
        "// What the host offers to handlers. Generated from the WIT package host:jobs@1.2.0.\n";

    fn define(&self, name: &str, definition: &TypeDef) -> String {
        let about = doc(&definition.docs, "");
        match &definition.kind {
            TypeDefKind::Enum(cases) => {
                let cases: String = cases
                    .cases
                    .iter()
                    .map(|case| format!("{}  | '{}'\n", doc(&case.docs, "  "), case.name))
                    .collect::<Vec<_>>()
                    .concat();
                format!("\n{about}export type {name} =\n{}", end_cases(&cases))
            }
            TypeDefKind::Record(record) => {
                let fields: String = record
                    .fields
                    .iter()
                    .map(|field| {
                        let field_name = camel(&field.name);
                        let (mark, ty) = self.field(&field.ty);
                        format!("{}  {field_name}{mark}: {ty};\n", doc(&field.docs, "  "))
                    })
                    .collect::<Vec<_>>()
                    .concat();
                format!("\n{about}export interface {name} {{\n{fields}}}\n")
            }
            TypeDefKind::Variant(variant) => {
                let cases: String = variant
                    .cases
                    .iter()
                    .map(|case| {
                        let value = case.ty.as_ref().map(|ty| {
                            let (mark, ty) = self.field(ty);
                            format!("; val{mark}: {ty}")
                        });
                        let (about, value) = (doc(&case.docs, "  "), value.unwrap_or_default());
                        format!("{about}  | {{ tag: '{}'{value} }}\n", case.name)
                    })
                    .collect::<Vec<_>>()
                    .concat();
                format!("\n{about}export type {name} =\n{}", end_cases(&cases))
            }
            _ => String::new(),
        }
    }

    fn interface(&self, name: &str, interface: &Interface) -> String {
        let mut text = format!(
            "\n{}export interface {} {{\n",
            doc(&interface.docs, ""),
            pascal(name)
        );
        for function in interface.functions.values() {
            let params: Vec<_> = function
                .params
                .iter()
                .map(|param| format!("{}: {}", camel(&param.name), self.name(&param.ty)))
                .collect();
            let (ok, err) = answer(self.wit, function);
            let ok = ok.map_or_else(|| "void".to_owned(), |ty| self.name(ty));
            let mut about = documented(&function.docs).to_owned();
            if let Some(err) = err {
                about = format!("{about}\n\nThrows {}.", self.name(err));
            }
            let about = commented(&about, "  ");
            let (name, params) = (camel(&function.name), params.join(", "));
            text = format!("{text}{about}  {name}({params}): {ok};\n");
        }
        text + "}\n"
    }

    fn host(&self, interfaces: &[&str]) -> String {
        let fields: String = interfaces
            .iter()
            .map(|name| format!("  {name}: {};\n", pascal(name)))
            .collect::<Vec<_>>()
            .concat();
        format!("\n/** All that the host offers. */\nexport interface Host {{\n{fields}}}\n")
    }
}

impl TypeScript<'_> {
    /// Returns the mark of a field and its type.
    fn field(&self, ty: &Type) -> (&'static str, String) {
        match definition(self.wit, ty).map(|it| &it.kind) {
            Some(TypeDefKind::Option(of)) => ("?", format!("{} | undefined", self.name(of))),
            _ => ("", self.name(ty)),
        }
    }

    fn name(&self, ty: &Type) -> String {
        let name = match ty {
            Type::Bool => "boolean",
            Type::String | Type::Char => "string",
            Type::U8
            | Type::U16
            | Type::U32
            | Type::S8
            | Type::S16
            | Type::S32
            | Type::F32
            | Type::F64 => "number",
            _ => return self.defined(ty),
        };
        name.to_owned()
    }

    fn defined(&self, ty: &Type) -> String {
        let definition = definition(self.wit, ty).unwrap();
        match &definition.kind {
            TypeDefKind::Option(of) => format!("{} | undefined", self.name(of)),
            TypeDefKind::List(Type::U8) => "Uint8Array".to_owned(),
            TypeDefKind::List(of) => format!("Array<{}>", self.name(of)),
            TypeDefKind::Tuple(of) => {
                let of: Vec<_> = of.types.iter().map(|ty| self.name(ty)).collect();
                format!("[{}]", of.join(", "))
            }
            TypeDefKind::Type(of) => self.name(of),
            _ => type_name(self.wit, definition),
        }
    }
}

fn camel(name: &str) -> String {
    let name = pascal(name);
    let (first, rest) = name.split_at(1);
    first.to_lowercase() + rest
}

fn end_cases(cases: &str) -> String {
    format!("{};\n", cases.trim_end())
}

fn doc(docs: &Docs, margin: &str) -> String {
    commented(documented(docs), margin)
}

fn commented(text: &str, margin: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    if !text.contains('\n') {
        return format!("{margin}/** {text} */\n");
    }
    let lines: String = text
        .lines()
        .map(|line| format!("{margin} * {line}\n"))
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect();
    format!("{margin}/**\n{lines}{margin} */\n")
}

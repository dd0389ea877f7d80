//! The attribute `#[handler]`. It leaves the function unchanged, so that tests can call it, and adds a
//! module of the same name that contains what `export_handlers!` needs.

#![warn(missing_docs)]

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::{quote, quote_spanned};
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{
    Expr, ExprLit, FnArg, Ident, ItemFn, Lit, LitStr, Meta, ReturnType, Token, Type,
    parse_macro_input,
};

/// Turns `fn name(ctx: &Ctx, params: P) -> Result<R, Error>` into a handler.
///
/// The params are deserialized into `P`, and `R` is serialized as the result. The handler has the name
/// of the function, or the name you give: `#[handler("wire-name")]`. The doc comment is its
/// description.
///
/// `#[handler(schema)]` also adds the JSON Schemas of `P` and `R` to the component. Both types must
/// then implement `schemars::JsonSchema` (enable the SDK's feature `schema`). The host checks params
/// against the schema before it accepts a job.
#[proc_macro_attribute]
pub fn handler(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let options = parse_macro_input!(attribute as Options);
    let function = parse_macro_input!(item as ItemFn);
    match expand(options, &function) {
        Ok(tokens) => tokens.into(),
        Err(error) => error.to_compile_error().into(),
    }
}

/// The arguments of the attribute.
#[derive(Default)]
struct Options {
    name: Option<LitStr>,
    schema: bool,
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut options = Self::default();
        while !input.is_empty() {
            if input.peek(LitStr) {
                options.name = Some(input.parse()?);
            } else {
                let option: Ident = input.parse()?;
                if option != "schema" {
                    let message =
                        "unknown option of `#[handler]`; use a name in quotes, `schema`, or both";
                    return Err(syn::Error::new(option.span(), message));
                }
                options.schema = true;
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(options)
    }
}

fn expand(options: Options, function: &ItemFn) -> syn::Result<Tokens> {
    let ident = &function.sig.ident;
    let name = options
        .name
        .unwrap_or_else(|| LitStr::new(&ident.to_string(), ident.span()));
    check_name(&name)?;
    if let Some(asyncness) = &function.sig.asyncness {
        let message =
            "a handler cannot be async: each attempt has its own instance; remove `async`";
        return Err(syn::Error::new(asyncness.span(), message));
    }
    check_inputs(function)?;
    let ReturnType::Type(_, returned) = &function.sig.output else {
        let message = "a handler must return `Result<R, guest_sdk::Error>`";
        return Err(syn::Error::new(function.sig.span(), message));
    };
    let description = description(function);
    let describe = if options.schema {
        quote!(describe_with_schemas)
    } else {
        quote!(describe)
    };
    let visibility = &function.vis;
    let call = quote_spanned! {returned.span()=>
        ::guest_sdk::export::call(ctx, params, super::#ident)
    };
    Ok(quote! {
        #[allow(
            clippy::needless_pass_by_value,
            clippy::unnecessary_wraps,
            reason = "handlers must have this signature"
        )]
        #function

        #[doc(hidden)]
        #visibility mod #ident {
            #[allow(unused_imports, reason = "the handler's types are in scope as they are for the function")]
            use super::*;

            pub const NAME: &str = #name;

            pub fn describe() -> ::guest_sdk::export::Description {
                ::guest_sdk::export::#describe(NAME, #description, super::#ident)
            }

            pub fn call(
                ctx: &::guest_sdk::Ctx,
                params: &str,
            ) -> ::core::result::Result<::std::string::String, ::guest_sdk::Error> {
                #call
            }
        }
    })
}

fn check_name(name: &LitStr) -> syn::Result<()> {
    let text = name.value();
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_.:/-".contains(c);
    if text.is_empty() || text.len() > 128 || !text.chars().all(allowed) {
        let message =
            "invalid handler name: expected 1–128 characters out of A-Z a-z 0-9 _ . : / -";
        return Err(syn::Error::new(name.span(), message));
    }
    Ok(())
}

fn check_inputs(function: &ItemFn) -> syn::Result<()> {
    let mut inputs = function.sig.inputs.iter();
    match (inputs.next(), inputs.next(), inputs.next()) {
        (Some(FnArg::Typed(ctx)), Some(FnArg::Typed(_)), None)
            if matches!(*ctx.ty, Type::Reference(_)) =>
        {
            Ok(())
        }
        _ => {
            let message = "a handler must take two arguments: `ctx: &Ctx`, and its params by value";
            Err(syn::Error::new(function.sig.inputs.span(), message))
        }
    }
}

/// Joins the lines of the doc comment.
fn description(function: &ItemFn) -> Tokens {
    let lines: Vec<String> = function
        .attrs
        .iter()
        .filter(|attribute| attribute.path().is_ident("doc"))
        .filter_map(|attribute| match &attribute.meta {
            Meta::NameValue(doc) => match &doc.value {
                Expr::Lit(ExprLit {
                    lit: Lit::Str(text),
                    ..
                }) => Some(text.value().trim().to_owned()),
                _ => None,
            },
            _ => None,
        })
        .collect();
    let text = lines.join("\n").trim().to_owned();
    if text.is_empty() {
        quote!(::core::option::Option::None)
    } else {
        quote!(::core::option::Option::Some(#text))
    }
}

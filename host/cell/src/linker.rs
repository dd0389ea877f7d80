//! The interfaces that a component may import: those of `host:jobs`, and a list of WASI interfaces.
//! UDP and what serves HTTP may be imported too, but their functions fail when they are called. A component
//! with any other import is refused when it is deployed.

use thiserror::Error;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, HasData, HasSelf, Linker, ResourceTable, ResourceType};
use wasmtime::{Engine, Result};
use wasmtime_wasi::cli::WasiCli;
use wasmtime_wasi::clocks::WasiClocks;
use wasmtime_wasi::p2::bindings::{cli, clocks, filesystem, random, sockets};
use wasmtime_wasi::random::WasiRandom;
use wasmtime_wasi::{WasiCtxView, WasiView};
use wasmtime_wasi_http::p2::bindings::http;
use wasmtime_wasi_http::{WasiHttp, WasiHttpView as _};
use wasmtime_wasi_io::bindings::wasi::io;

use crate::bindings::host::jobs;
use crate::context::Guest;

struct WasiIo;

impl HasData for WasiIo {
    type Data<'a> = &'a mut ResourceTable;
}

/// Links everything a component may import.
pub(crate) fn link(engine: &Engine) -> Result<Linker<Guest>> {
    let mut linker = Linker::new(engine);
    let l = &mut linker;
    jobs::artifacts::add_to_linker::<_, HasSelf<Guest>>(l, |guest| guest)?;
    jobs::control::add_to_linker::<_, HasSelf<Guest>>(l, |guest| guest)?;
    jobs::http::add_to_linker::<_, HasSelf<Guest>>(l, |guest| guest)?;
    jobs::jobs::add_to_linker::<_, HasSelf<Guest>>(l, |guest| guest)?;
    jobs::log::add_to_linker::<_, HasSelf<Guest>>(l, |guest| guest)?;
    jobs::limits::add_to_linker::<_, HasSelf<Guest>>(l, |guest| guest)?;
    jobs::secrets::add_to_linker::<_, HasSelf<Guest>>(l, |guest| guest)?;
    jobs::sql::add_to_linker::<_, HasSelf<Guest>>(l, |guest| guest)?;
    jobs::state::add_to_linker::<_, HasSelf<Guest>>(l, |guest| guest)?;
    jobs::steps::add_to_linker::<_, HasSelf<Guest>>(l, |guest| guest)?;

    io::error::add_to_linker::<Guest, WasiIo>(l, |guest| guest.ctx().table)?;
    io::poll::add_to_linker::<Guest, WasiIo>(l, |guest| guest.ctx().table)?;
    io::streams::add_to_linker::<Guest, WasiIo>(l, |guest| guest.ctx().table)?;
    clocks::wall_clock::add_to_linker::<Guest, WasiClocks>(l, clocks_of)?;
    clocks::monotonic_clock::add_to_linker::<Guest, WasiClocks>(l, clocks_of)?;
    random::random::add_to_linker::<Guest, WasiRandom>(l, |guest| guest.ctx().ctx.random())?;
    random::insecure::add_to_linker::<Guest, WasiRandom>(l, |guest| guest.ctx().ctx.random())?;
    random::insecure_seed::add_to_linker::<Guest, WasiRandom>(l, |guest| guest.ctx().ctx.random())?;
    filesystem::preopens::add_to_linker::<_, HasSelf<Guest>>(l, |guest| guest)?;
    filesystem::types::add_to_linker::<_, HasSelf<Guest>>(l, |guest| guest)?;
    cli::exit::add_to_linker::<Guest, WasiCli>(l, cli_of)?;
    cli::environment::add_to_linker::<Guest, WasiCli>(l, cli_of)?;
    cli::stdin::add_to_linker::<Guest, WasiCli>(l, cli_of)?;
    cli::stdout::add_to_linker::<Guest, WasiCli>(l, cli_of)?;
    cli::stderr::add_to_linker::<Guest, WasiCli>(l, cli_of)?;
    cli::terminal_input::add_to_linker::<Guest, WasiCli>(l, cli_of)?;
    cli::terminal_output::add_to_linker::<Guest, WasiCli>(l, cli_of)?;
    cli::terminal_stdin::add_to_linker::<Guest, WasiCli>(l, cli_of)?;
    cli::terminal_stdout::add_to_linker::<Guest, WasiCli>(l, cli_of)?;
    cli::terminal_stderr::add_to_linker::<Guest, WasiCli>(l, cli_of)?;
    http::outgoing_handler::add_to_linker::<Guest, WasiHttp>(l, Guest::http)?;
    let options = http::types::LinkOptions::default();
    http::types::add_to_linker::<Guest, WasiHttp>(l, &options, Guest::http)?;
    let options = sockets::network::LinkOptions::default();
    sockets::network::add_to_linker::<_, HasSelf<Guest>>(l, &options, |guest| guest)?;
    sockets::instance_network::add_to_linker::<_, HasSelf<Guest>>(l, |guest| guest)?;
    sockets::ip_name_lookup::add_to_linker::<_, HasSelf<Guest>>(l, |guest| guest)?;
    sockets::tcp::add_to_linker::<_, HasSelf<Guest>>(l, |guest| guest)?;
    sockets::tcp_create_socket::add_to_linker::<_, HasSelf<Guest>>(l, |guest| guest)?;
    Ok(linker)
}

/// Returns whether `name` is an interface that [`link`] links. Ignores the version.
pub(crate) fn is_linked(name: &str) -> bool {
    const INTERFACES: &[&str] = &[
        "host:jobs/types",
        "host:jobs/artifacts",
        "host:jobs/control",
        "host:jobs/http",
        "host:jobs/jobs",
        "host:jobs/limits",
        "host:jobs/log",
        "host:jobs/secrets",
        "host:jobs/sql",
        "host:jobs/state",
        "host:jobs/steps",
        "wasi:io/error",
        "wasi:io/poll",
        "wasi:io/streams",
        "wasi:clocks/wall-clock",
        "wasi:clocks/monotonic-clock",
        "wasi:random/random",
        "wasi:random/insecure",
        "wasi:random/insecure-seed",
        "wasi:filesystem/preopens",
        "wasi:filesystem/types",
        "wasi:cli/exit",
        "wasi:cli/environment",
        "wasi:cli/stdin",
        "wasi:cli/stdout",
        "wasi:cli/stderr",
        "wasi:cli/terminal-input",
        "wasi:cli/terminal-output",
        "wasi:cli/terminal-stdin",
        "wasi:cli/terminal-stdout",
        "wasi:cli/terminal-stderr",
        "wasi:http/outgoing-handler",
        "wasi:http/types",
        "wasi:sockets/network",
        "wasi:sockets/instance-network",
        "wasi:sockets/ip-name-lookup",
        "wasi:sockets/tcp",
        "wasi:sockets/tcp-create-socket",
    ];
    let interface = name.split('@').next().unwrap_or(name);
    INTERFACES.contains(&interface)
}

/// The interfaces whose functions fail when they are called. Standard libraries import them whether or not
/// a handler uses them.
const STUBBED: [&str; 2] = ["wasi:sockets/", "wasi:http/"];

/// Returns whether `name` is an interface that [`stub`] stubs.
pub(crate) fn is_stubbed(name: &str) -> bool {
    STUBBED.iter().any(|package| name.starts_with(package)) && !is_linked(name)
}

/// A handler called a stubbed function.
#[derive(Debug, Error)]
#[error(
    "the handler called {interface}#{function}, but handlers may neither listen nor use UDP; send requests with wasi:http or \
     host:jobs/http, or connect to a server that the manifest grants"
)]
pub(crate) struct NotGiven {
    interface: String,
    function: String,
}

/// Stubs all stubbed interfaces that a component imports, so that their functions fail. Returns the
/// interfaces.
pub(crate) fn stub(linker: &mut Linker<Guest>, component: &Component) -> Result<Vec<String>> {
    let engine = linker.engine().clone();
    let kind = component.component_type();
    // A resource belongs to the first interface that has it; others only use it.
    let mut owned: Vec<ResourceType> = Vec::new();
    let mut stubbed = Vec::new();
    for (interface, item) in kind.imports(&engine) {
        let ComponentItem::ComponentInstance(instance) = item.ty else {
            continue;
        };
        let mut stubs = if is_stubbed(interface) {
            stubbed.push(interface.to_owned());
            Some(linker.instance(interface)?)
        } else {
            None
        };
        for (name, export) in instance.exports(&engine) {
            match export.ty {
                ComponentItem::Resource(resource) if !owned.contains(&resource) => {
                    owned.push(resource);
                    if let Some(stubs) = &mut stubs {
                        stubs.resource(name, ResourceType::host::<Stub>(), |_, _| Ok(()))?;
                    }
                }
                ComponentItem::ComponentFunc(_) => {
                    if let Some(stubs) = &mut stubs {
                        let (interface, function) = (interface.to_owned(), name.to_owned());
                        stubs.func_new(name, move |_, _, _, _| {
                            let (interface, function) = (interface.clone(), function.clone());
                            Err(NotGiven {
                                interface,
                                function,
                            }
                            .into())
                        })?;
                    }
                }
                _ => {}
            }
        }
    }
    Ok(stubbed)
}

/// Takes the place of a resource of a stubbed interface. None is ever made.
struct Stub;

fn clocks_of(guest: &mut Guest) -> wasmtime_wasi::clocks::WasiClocksCtxView<'_> {
    let WasiCtxView { ctx, table } = guest.ctx();
    wasmtime_wasi::clocks::WasiClocksCtxView {
        ctx: ctx.clocks(),
        table,
    }
}

fn cli_of(guest: &mut Guest) -> wasmtime_wasi::cli::WasiCliCtxView<'_> {
    let WasiCtxView { ctx, table } = guest.ctx();
    wasmtime_wasi::cli::WasiCliCtxView {
        ctx: ctx.cli(),
        table,
    }
}

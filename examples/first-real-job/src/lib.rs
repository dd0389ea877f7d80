//! A first real job: fetches orders from an API page by page, enqueues a job for each, and remembers how far it came.

use guest_sdk::schemars::{self, JsonSchema};
use guest_sdk::{Ctx, Error, NewJob, export_handlers, handler};
use serde::{Deserialize, Serialize};

export_handlers!(fetch_orders, import_order);

/// Where the cursor is kept.
const CURSOR: &str = "cursor";

#[derive(Deserialize, JsonSchema)]
struct Fetch {
    /// The address of the orders, without a query.
    url: String,
    /// How many pages one attempt fetches; the rest follows with the next job.
    pages: u16,
}

/// A page as the API sends it.
#[derive(Deserialize)]
struct Page {
    orders: Vec<Order>,
    /// What to give as `after` for the next page; nothing at the end.
    next: Option<String>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
struct Order {
    id: String,
    cents: u64,
}

#[derive(Debug, JsonSchema, PartialEq, Serialize)]
struct Fetched {
    orders: usize,
    /// Where the next job continues.
    cursor: Option<String>,
}

/// Fetches new orders and enqueues a job for each.
#[handler("fetch-orders", schema)]
fn fetch_orders(ctx: &Ctx, params: Fetch) -> Result<Fetched, Error> {
    let mut cursor: Option<String> = ctx.state().get(CURSOR)?;
    let mut orders = 0;
    for page in 0..params.pages {
        ctx.check_cancelled()?;
        let after = cursor.as_deref().unwrap_or_default();
        let request = ctx.http().get(format!("{}?after={after}", params.url));
        let found: Page = request.send()?.ok()?.json()?;
        orders += found.orders.len();
        ctx.enqueue_all(&jobs(&found.orders)?)?;
        ctx.progress(
            100.0 * f32::from(page + 1) / f32::from(params.pages),
            format_args!("{orders} orders"),
        );
        let Some(next) = found.next else { break };
        cursor = Some(next);
    }
    // The jobs and the cursor are stored together, exactly if this attempt completes.
    ctx.state().set(CURSOR, &cursor)?;
    Ok(Fetched { orders, cursor })
}

fn jobs(orders: &[Order]) -> Result<Vec<NewJob>, Error> {
    let job = |order| NewJob::new("import-order").queue("orders").params(order);
    orders.iter().map(job).collect()
}

/// Imports one order.
#[handler("import-order", schema)]
fn import_order(ctx: &Ctx, order: Order) -> Result<Order, Error> {
    ctx.info(format_args!("order {} of {} cents", order.id, order.cents));
    Ok(order)
}

#[cfg(test)]
mod tests {
    use guest_sdk::{HttpRequest, HttpResponse, MockHost};
    use serde_json::json;

    use super::*;

    /// An API with the orders 1 to 5, two on a page. It fails at the page after `fails_after`.
    fn api(request: &HttpRequest, fails_after: &str) -> HttpResponse {
        let after = request.url.rsplit('=').next().unwrap();
        if after == fails_after {
            return HttpResponse::json_of(503, &json!({}));
        }
        let first = after.parse::<u64>().unwrap_or(0) + 1;
        let orders: Vec<_> = (first..=5).take(2).collect();
        let next = orders.last().map(u64::to_string);
        let orders: Vec<_> = orders
            .iter()
            .map(|n| json!({"id": n.to_string(), "cents": 100 * n}))
            .collect();
        HttpResponse::json_of(200, &json!({"orders": orders, "next": next}))
    }

    fn fetch(host: &MockHost, pages: u16) -> Result<Fetched, Error> {
        let url = "https://api.example.com/orders".to_owned();
        host.run(|ctx| fetch_orders(ctx, Fetch { url, pages }))
    }

    #[test]
    fn each_job_goes_on_where_the_last_one_ended() {
        let host = MockHost::new().answer(|request| Ok(api(request, "never")));
        let fetched = fetch(&host, 2).unwrap();
        assert_eq!((fetched.orders, fetched.cursor.as_deref()), (4, Some("4")));
        assert_eq!(fetch(&host, 2).unwrap().orders, 1);
        assert_eq!(fetch(&host, 2).unwrap().orders, 0, "nothing is new");
        let jobs = host.enqueued();
        assert_eq!(jobs.len(), 5);
        assert_eq!(jobs[4].params, json!({"id": "5", "cents": 500}));
        assert_eq!(jobs[4].queue.as_deref(), Some("orders"));
        assert_eq!(host.state(CURSOR), Some("5".to_owned()));
    }

    #[test]
    fn an_attempt_that_fails_in_the_middle_leaves_nothing() {
        let host = MockHost::new().answer(|request| Ok(api(request, "2")));
        fetch(&host, 1).unwrap();
        let failed = fetch(&host, 2).unwrap_err();
        assert!(matches!(failed, Error::Failed(failed) if failed.retryable == Some(true)));
        assert_eq!(host.enqueued().len(), 2, "those of the first page");
        assert_eq!(host.state(CURSOR), Some("2".to_owned()));
    }
}

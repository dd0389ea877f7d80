//! How much bodies and answers are charged, and for how long.

use host_core::access::Principal;

use super::*;
use crate::share::STREAMS_MAX;

fn budget(units: usize) -> ByteBudget {
    ByteBudget {
        units: Arc::new(Semaphore::new(units)),
    }
}

/// Returns the head of a request of a caller with this share.
fn parts(share: Option<&Share>) -> Parts {
    let (mut parts, ()) = axum::http::Request::new(()).into_parts();
    let caller = share.map(|share| Caller {
        principal: Arc::new(Principal::anyone()),
        over: None,
        share: Some(share.clone()),
    });
    if let Some(caller) = caller {
        parts.extensions.insert(caller);
    }
    parts
}

/// Reads a body that arrives in pieces.
async fn read(
    budget: &ByteBudget,
    pieces: &[usize],
    limit_bytes: usize,
) -> Result<RequestBody, Refusal> {
    read_for(budget, None, pieces, limit_bytes).await
}

async fn read_for(
    budget: &ByteBudget,
    share: Option<&Share>,
    pieces: &[usize],
    limit_bytes: usize,
) -> Result<RequestBody, Refusal> {
    let pieces: Vec<_> = pieces
        .iter()
        .map(|bytes| Ok::<_, Infallible>(vec![b'x'; *bytes]))
        .collect();
    let body = Body::from_stream(stream::iter(pieces));
    budget.read(&parts(share), body, limit_bytes).await
}

#[tokio::test]
async fn one_caller_leaves_memory_for_others() {
    let budget = ByteBudget::default();
    let (one, two) = (Share::default(), Share::default());
    let half = [UNITS / 2 * FREE_BYTES];
    let all = usize::MAX;
    let held = read_for(&budget, Some(&one), &half, all).await.unwrap();
    assert_eq!(one.body_bytes(), half[0]);
    let more = read_for(&budget, Some(&one), &[FREE_BYTES], all).await;
    assert_eq!(more.unwrap_err(), Refusal::ShareUsed);
    let small = read_for(&budget, Some(&one), &[FREE_BYTES - 1], all).await;
    let _stream = small.expect("small bodies are free");
    let other = read_for(&budget, Some(&two), &[FREE_BYTES; 3], all).await;
    assert_eq!(two.body_bytes(), 3 * FREE_BYTES);
    // An answer has its own memory, and half of that.
    let answers = ByteBudget::default();
    let text = "x".repeat(half[0]);
    let answer =
        |share| answers.charge_answer(Response::new(Body::from(text.clone())), Some(share));
    let taken = answer(&one).await.unwrap();
    assert_eq!(answer(&one).await.unwrap_err(), Refusal::ShareUsed);
    answer(&two).await.unwrap();
    drop((held, other, taken));
    assert_eq!((one.body_bytes(), two.body_bytes()), (0, 0));
    answer(&one).await.unwrap();
    let streams: Vec<_> = std::iter::from_fn(|| one.stream()).collect();
    assert_eq!((streams.len(), one.streams()), (STREAMS_MAX, STREAMS_MAX));
    let _stream = two.stream().expect("another caller has its own");
}

#[tokio::test]
async fn bodies_are_charged_until_they_are_dropped() {
    let budget = budget(4);
    let limit_bytes = 10 * FREE_BYTES;
    let large = read(&budget, &[FREE_BYTES, 2 * FREE_BYTES], limit_bytes)
        .await
        .unwrap();
    assert_eq!(large.bytes.len(), 3 * FREE_BYTES);
    assert_eq!(budget.units.available_permits(), 1);

    let refused = read(&budget, &[FREE_BYTES, FREE_BYTES], limit_bytes).await;
    assert_eq!(refused.unwrap_err(), Refusal::Busy);
    assert_eq!(
        budget.units.available_permits(),
        1,
        "it has returned everything"
    );

    let small = read(&budget, &[FREE_BYTES - 1], limit_bytes).await.unwrap();
    assert_eq!(budget.units.available_permits(), 1, "small ones are free");
    drop((large, small));
    assert_eq!(budget.units.available_permits(), 4);
}

#[tokio::test]
async fn a_body_has_a_limit_whether_it_is_announced_or_not() {
    let budget = ByteBudget::default();
    let too_large = Refusal::BodyTooLarge { limit_bytes: 10 };
    let found = read(&budget, &[4, 4, 4], 10).await.unwrap_err();
    assert_eq!(found, too_large);
    assert_eq!(read(&budget, &[4, 6], 10).await.unwrap().bytes.len(), 10);
    assert_eq!(read(&budget, &[], 10).await.unwrap().bytes.len(), 0);

    let mut announced = parts(None);
    announced.headers.insert(CONTENT_LENGTH, 11.into());
    let unread = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
    let found = budget.read(&announced, unread, 10).await.unwrap_err();
    assert_eq!(found, too_large, "known without reading it");
}

#[tokio::test(start_paused = true)]
async fn a_body_has_a_time_limit() {
    let budget = ByteBudget::default();
    let drip = stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        Some((Ok::<_, Infallible>("x"), ()))
    });
    let began = tokio::time::Instant::now();
    let body = Body::from_stream(drip);
    let found = budget.read(&parts(None), body, 100).await.unwrap_err();
    assert_eq!(
        found,
        Refusal::BodyTimeout {
            limit: BODY_TIMEOUT
        }
    );
    assert_eq!(began.elapsed(), BODY_TIMEOUT);
}

#[tokio::test]
async fn large_answers_are_charged_until_they_are_taken() {
    let budget = budget(20);
    let text = "x".repeat(11 * FREE_BYTES);
    let answer = || budget.charge_answer(Response::new(Body::from(text.clone())), None);
    let first = answer().await.unwrap();
    assert_eq!(first.headers()[CONTENT_LENGTH], text.len().to_string());
    assert!(answer().await.is_err(), "the budget has room for one");
    let small = Response::new(Body::from("x".repeat(FREE_BYTES)));
    budget.charge_answer(small, None).await.unwrap();

    let mut body = first.into_body();
    let chunk = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(chunk.len(), CHUNK_BYTES);
    assert!(answer().await.is_err(), "the rest of the first still waits");
    let rest = body.collect().await.unwrap().to_bytes();
    assert_eq!(chunk.len() + rest.len(), text.len());
    answer().await.unwrap();
}

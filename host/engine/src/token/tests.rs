//! What a text says of a token, and until when its proofs count.

use host_core::secret::hide_tokens;
use host_core::time::Time;

use super::*;

#[test]
fn tokens_in_a_text_keep_only_their_ids() {
    let text = TokenText::new(&token_id(&[1; 32]), &[2; 32]);
    let (whole, id) = (text.expose(), token_id(&[1; 32]));
    for (text, hidden) in [
        (
            format!("/tokens/{whole}"),
            format!("/tokens/hst_{}_***", id.as_str()),
        ),
        (
            format!("{whole}.{whole}"),
            format!("hst_{0}_***.hst_{0}_***", id.as_str()),
        ),
        (
            "/tokens/hst_short".to_owned(),
            "/tokens/hst_short".to_owned(),
        ),
        ("/jobs".to_owned(), "/jobs".to_owned()),
    ] {
        assert_eq!(hide_tokens(&text), hidden);
    }
}

/// Each proof counts up to the instant of its end, and none lasts longer than its token.
#[test]
fn each_proof_of_a_token_counts_until_its_end() {
    let [current, before, early, late] = ["current", "before", "early", "late"].map(TokenHash::of);
    let token = |expires_at: Option<i64>, overlap: i64| Token {
        id: token_id(&[1; 32]),
        hash: current,
        name: "one".to_owned(),
        created_by: "uid:0".to_owned(),
        created_at: Time(0),
        rights: Rights {
            expires_at: expires_at.map(Time),
            ..Rights::default()
        },
        previous: Some((before, Time(overlap))),
        sessions: vec![(early, Time(300)), (late, Time(2_000))],
    };
    // The end of the token, that of the overlap; whether a session is shown, what is shown, and until when it counts.
    for (expires_at, overlap, is_session, shown, end) in [
        (None, 500, false, current, None),
        (Some(1_000), 500, false, current, Some(1_000)),
        (Some(1_000), 500, false, before, Some(500)),
        (Some(1_000), 5_000, false, before, Some(1_000)),
        (None, 5_000, false, before, Some(5_000)),
        (Some(1_000), 500, true, early, Some(300)),
        (Some(1_000), 500, true, late, Some(1_000)),
        (None, 500, true, late, Some(2_000)),
    ] {
        let token = token(expires_at, overlap);
        let counts = |now: i64| token.proof(is_session, &shown, Time(now)).is_some();
        let context = format!("{expires_at:?} {overlap} {is_session} {end:?}");
        match end {
            None => assert!(counts(i64::MAX), "{context}"),
            Some(end) => assert_eq!([counts(end - 1), counts(end)], [true, false], "{context}"),
        }
        assert!(
            token.proof(!is_session, &shown, Time(0)).is_none(),
            "{context}"
        );
        let has_ended = |now: i64| token.has_ended(Time(now));
        let is_over = [has_ended(999), has_ended(1_000)];
        assert_eq!(is_over, [false, expires_at.is_some()], "{context}");
    }
    // A session begins only with what still counts, and takes the place of those that are over.
    let begin = |presented, now| {
        let mut token = token(Some(1_000), 500);
        let session = TokenHash::of("new");
        let new = NewSession {
            token: token.id.clone(),
            presented,
            session,
            until: Time(9_000),
        };
        let begun = token.begin_session(&new, Time(now));
        (begun, token.sessions.len())
    };
    assert_eq!(begin(before, 499), (true, 2));
    assert_eq!(begin(before, 500), (false, 2));
    assert_eq!(begin(current, 299), (true, 3));
    assert_eq!(begin(current, 300), (true, 2));
    assert_eq!(begin(current, 1_000), (false, 2));
    assert_eq!(begin(late, 0), (false, 2), "a session begins no other");
}

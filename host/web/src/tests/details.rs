//! What the pages of a job, a handler and a component say in their tables.

use super::*;

/// Checks that a page has each of these parts.
async fn has(path: &str, parts: &[&str]) {
    let (_, page) = get(&pages("nightly"), path).await;
    for part in parts {
        assert!(page.contains(part), "{path}: {part}: {page}");
    }
}

#[tokio::test]
async fn a_job_shows_what_each_attempt_ran_with_and_what_it_took() {
    has(
        "/jobs/01990f3c",
        &[
            "<td><bdi>nightly</bdi><details><summary>What the worker reports</summary>",
            "<dt>Name</dt><dd><bdi>nightly</bdi></dd>",
            "<dt>Read</dt><dd>1 B</dd><dt>Wrote</dt><dd>3.0 MiB</dd></dl></details></td>\n<td><bdi>nightly</bdi> 7</td>",
            "<td class=\"number\">1.0 s</td>",
            "<td class=\"number\">0.5</td>",
            "<td class=\"number\">1,234,567</td>",
            "<td class=\"number\">3.0 MiB</td>",
            "<span class=\"state failed\">failed</span>",
            "<summary>Stack of attempt 1</summary><pre tabindex=\"0\">nightly</pre>",
            "<summary>Stack</summary><pre tabindex=\"0\">nightly</pre>",
            "<progress max=\"100\" value=\"45.5\">45.5 %</progress> <bdi>nightly</bdi>",
        ],
    )
    .await;
}

#[tokio::test]
async fn a_handler_shows_its_cost_by_revision_and_all_its_grants() {
    has(
        "/handlers/echo",
        &[
            "<td><bdi>nightly</bdi> 2</td>\n<td class=\"number\">10</td>\n<td class=\"number\">9</td>",
            "<td><bdi>nightly</bdi> 1</td>\n<td class=\"number\">7</td>\n<td class=\"number\"><span class=\"zero\">0</span></td>\n\
             <td class=\"number\">4 / 5</td>\n<td class=\"number\">4 / 5</td>\n<td class=\"number\">4 / 5</td>\n\
             <td class=\"number\">7.0 KiB</td>",
            "<li><bdi>env nightly</bdi></li>",
            "<li><bdi>read nightly as nightly</bdi></li>",
            "<li><bdi>http nightly GET any path, with the secrets nightly</bdi></li>",
            "<li><bdi>enqueue nightly,mail-* in nightly</bdi></li>",
            "<li><bdi>keep state, 16 KiB, and share nightly</bdi></li>",
            "<li><bdi>see the secret nightly</bdi></li>",
            "<li><bdi>hold keys of the limit nightly</bdi></li>",
        ],
    )
    .await;
}

#[tokio::test]
async fn a_component_shows_who_signed_it_and_the_grants_of_its_current_revision() {
    has(
        "/components/basics",
        &[
            "<td><code title=\"nightly\">nightly</code></td>\n<td><code>nightly</code></td>",
            "<h2>Grants of revision 2</h2>",
            "<li><bdi>echo: env nightly</bdi></li>",
            "<li><bdi>echo: enqueue nightly in nightly</bdi></li>",
            "<li><bdi>echo: keep state, 16 KiB</bdi></li>",
            "<li><bdi>echo: see the secret nightly</bdi></li>",
        ],
    )
    .await;
}

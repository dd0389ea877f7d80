//! Converts Markdown to HTML.

use guest_sdk::schemars::{self, JsonSchema};
use guest_sdk::{Ctx, Error, export_handlers, handler};
use pulldown_cmark::{Event, Options, Parser, html};
use serde::{Deserialize, Serialize};

export_handlers!(markdown);

#[derive(Deserialize, JsonSchema)]
struct Document {
    /// The document in Markdown, with GitHub's tables and strikethrough.
    markdown: String,
}

#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct Page {
    /// The body of the page. HTML in the document is escaped.
    html: String,
    /// The number of headings.
    headings: usize,
}

/// Converts a Markdown document to HTML and escapes HTML in it.
#[handler(schema)]
fn markdown(ctx: &Ctx, params: Document) -> Result<Page, Error> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
    let mut headings = 0;
    let mut events = Vec::new();
    for event in Parser::new_ext(&params.markdown, options) {
        events.push(match event {
            Event::Html(text) | Event::InlineHtml(text) => Event::Text(text),
            other => other,
        });
        if let Some(Event::Start(pulldown_cmark::Tag::Heading { .. })) = events.last() {
            headings += 1;
            ctx.check_cancelled()?;
        }
    }
    let mut page = String::with_capacity(params.markdown.len() * 2);
    html::push_html(&mut page, events.into_iter());
    Ok(Page {
        html: page,
        headings,
    })
}

#[cfg(test)]
mod tests {
    use guest_sdk::MockHost;

    use super::{Document, Page, markdown};

    #[test]
    fn converts_headings_and_escapes_html() {
        for (text, html, headings) in [
            ("# One\n\ntwo", "<h1>One</h1>\n<p>two</p>\n", 1),
            ("a <b>bold</b>", "<p>a &lt;b&gt;bold&lt;/b&gt;</p>\n", 0),
            ("", "", 0),
        ] {
            let params = Document {
                markdown: text.to_owned(),
            };
            let page = markdown(&MockHost::new().ctx(), params).unwrap();
            let html = html.to_owned();
            assert_eq!(page, Page { html, headings }, "{text}");
        }
    }

    #[test]
    fn converts_tables() {
        let params = Document {
            markdown: "|a|\n|---|\n|1|\n".to_owned(),
        };
        let page = markdown(&MockHost::new().ctx(), params).unwrap();
        assert!(page.html.contains("<table>"), "{}", page.html);
    }

    #[test]
    fn a_cancelled_job_ends_with_an_error() {
        let host = MockHost::new();
        host.cancel("enough");
        let params = Document {
            markdown: "# One".to_owned(),
        };
        assert!(markdown(&host.ctx(), params).is_err());
    }
}

//! Files of other programs: tables, XML, archives and pictures. Their bytes are base64 in JSON.

use std::collections::BTreeMap;
use std::io::{Cursor, Read, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use guest_sdk::{Category, Ctx, Error, handler};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

fn unreadable(error: impl std::fmt::Display) -> Error {
    Error::new(Category::DataQuality, "unreadable", error)
}

/// Reads a table as Excel writes it: with a byte order mark or in a code page, with semicolons and decimal commas.
#[handler]
pub(crate) fn sheet(_ctx: &Ctx, params: String) -> Result<Vec<BTreeMap<String, Value>>, Error> {
    let bytes = STANDARD.decode(params)?;
    // A byte order mark decides; without one it is UTF-8 if it can be, else the code page of Windows.
    let text = match std::str::from_utf8(&bytes) {
        Ok(_) => encoding_rs::UTF_8.decode(&bytes).0,
        Err(_) => encoding_rs::WINDOWS_1252.decode(&bytes).0,
    };
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(b';')
        .from_reader(text.as_bytes());
    let cell = |text: String| match text.replace(',', ".").parse::<f64>() {
        Ok(number) => number.into(),
        Err(_) => Value::String(text),
    };
    let rows = reader.deserialize::<BTreeMap<String, String>>();
    rows.map(|row| {
        let row = row.map_err(unreadable)?.into_iter();
        Ok(row.map(|(name, text)| (name, cell(text))).collect())
    })
    .collect()
}

/// Writes a table.
#[handler]
pub(crate) fn export(_ctx: &Ctx, params: Vec<Vec<String>>) -> Result<String, Error> {
    let mut writer = csv::WriterBuilder::new()
        .terminator(csv::Terminator::CRLF)
        .from_writer(Vec::new());
    for row in params {
        writer.write_record(row)?;
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}

#[derive(Deserialize, Serialize)]
#[serde(rename = "order")]
pub(crate) struct Order {
    #[serde(rename(deserialize = "@id", serialize = "id"))]
    id: u32,
    customer: String,
    #[serde(rename(deserialize = "line", serialize = "lines"))]
    lines: Vec<Line>,
}

#[derive(Deserialize, Serialize)]
struct Line {
    #[serde(rename(deserialize = "@sku", serialize = "sku"))]
    sku: String,
    #[serde(rename(deserialize = "$text", serialize = "text"))]
    text: String,
}

/// Reads an order in XML into types.
#[handler]
pub(crate) fn order(_ctx: &Ctx, params: String) -> Result<Order, Error> {
    quick_xml::de::from_str(&params).map_err(unreadable)
}

#[derive(Deserialize, Serialize)]
#[serde(rename = "order")]
pub(crate) struct NewOrder {
    #[serde(rename(serialize = "@id"))]
    id: u32,
    customer: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// Writes XML.
#[handler("write-order")]
pub(crate) fn write_order(_ctx: &Ctx, params: NewOrder) -> Result<String, Error> {
    Ok(quick_xml::se::to_string(&params)?)
}

/// Reads the titles of a feed, event by event.
#[handler]
pub(crate) fn feed(_ctx: &Ctx, params: String) -> Result<Vec<String>, Error> {
    use quick_xml::events::Event;

    let mut reader = quick_xml::Reader::from_str(&params);
    let mut titles = Vec::new();
    loop {
        match reader.read_event().map_err(unreadable)? {
            Event::Start(tag) if tag.local_name().as_ref() == "title" => {
                let text = reader.read_text(tag.name()).map_err(unreadable)?;
                titles.push(
                    quick_xml::escape::unescape(&text)
                        .map_err(unreadable)?
                        .into_owned(),
                );
            }
            Event::Eof => return Ok(titles),
            _ => {}
        }
    }
}

/// Packs files with names of any script, and lists them.
#[handler]
pub(crate) fn archive(
    _ctx: &Ctx,
    params: BTreeMap<String, String>,
) -> Result<Vec<(String, u64, String)>, Error> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in params {
        writer.start_file(name, SimpleFileOptions::default())?;
        writer.write_all(text.as_bytes())?;
    }
    let mut archive = ZipArchive::new(writer.finish()?)?;
    let mut files = Vec::new();
    for index in 0..archive.len() {
        let mut file = archive.by_index(index)?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        files.push((file.name()?.to_string(), file.size(), text));
    }
    Ok(files)
}

#[derive(Serialize)]
pub(crate) struct Picture {
    format: String,
    width: usize,
    height: usize,
}

/// Finds the format and the size of a picture.
#[handler]
pub(crate) fn picture(_ctx: &Ctx, params: String) -> Result<Picture, Error> {
    let bytes = STANDARD.decode(params).map_err(unreadable)?;
    let format = imagesize::image_type(&bytes).map_err(unreadable)?;
    let size = imagesize::blob_size(&bytes).map_err(unreadable)?;
    Ok(Picture {
        format: format!("{format:?}").to_lowercase(),
        width: size.width,
        height: size.height,
    })
}

/// Compresses JSON, reads it again, and says whether it became smaller.
#[handler]
pub(crate) fn gzip(_ctx: &Ctx, params: Value) -> Result<(Value, bool), Error> {
    let json = params.to_string();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(json.as_bytes())?;
    let compressed = encoder.finish()?;
    let value = serde_json::from_reader(GzDecoder::new(&*compressed))?;
    Ok((value, compressed.len() < json.len()))
}

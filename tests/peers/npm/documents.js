// One handler for each package: it calls what the package is for.

import { handler } from 'host-jobs';

import * as cheerio from 'cheerio';
import { XMLBuilder, XMLParser } from 'fast-xml-parser';
import Handlebars from 'handlebars';
import JSZip from 'jszip';
import { marked } from 'marked';
import Mustache from 'mustache';
import * as pako from 'pako';
import { PDFDocument } from 'pdf-lib';

const smoke = (name, run) => handler(name, {}, run);

smoke('cheerio', () => cheerio.load('<ul><li>a</li><li>b</li></ul>')('li').last().text());
smoke('fast-xml-parser', () => new XMLBuilder().build(new XMLParser().parse('<a><b>1</b></a>')));
smoke('handlebars', () => Handlebars.compile('{{#each rows}}{{this}};{{/each}}')({ rows: [1, 2] }));
smoke('jszip', async () => {
  const zip = new JSZip();
  zip.file('a.txt', 'äö');
  const read = await JSZip.loadAsync(await zip.generateAsync({ type: 'uint8array' }));
  return read.file('a.txt').async('string');
});
smoke('marked', () => marked.parse('# A *b*'));
smoke('mustache', () => Mustache.render('{{#a}}{{.}},{{/a}}', { a: [1, 2] }));
smoke('pako', () => pako.ungzip(pako.gzip('hello '.repeat(100)), { to: 'string' }).length);
smoke('pdf-lib', async () => {
  const pdf = await PDFDocument.create();
  pdf.addPage().drawText('hello');
  return (await PDFDocument.load(await pdf.save())).getPageCount();
});

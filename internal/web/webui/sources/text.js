// Text of models and programs as elements: Markdown, and code with colours. Whatever the text holds, it becomes text
// nodes and elements that are made here, never markup.
window.sluiceText = (() => {
  "use strict";

  const make = (name, className, text) => {
    const el = document.createElement(name);
    if (className) el.className = className;
    if (text !== undefined) el.textContent = text;
    return el;
  };

  const words = new Set(("and as async await break case catch chan class const continue def default defer del do elif else enum except export extends false finally fn for " +
    "from func function go if impl import in interface is lambda let match mut new nil none not null or package pass pub raise range return select self static struct " +
    "super switch this throw true try type typeof undefined use var void while with yield True False None " +
    "SELECT FROM WHERE INSERT INTO VALUES UPDATE SET DELETE JOIN ON GROUP BY ORDER LIMIT AND OR NOT NULL CREATE TABLE").split(" "));
  const hashes = new Set(["python", "py", "sh", "bash", "shell", "curl", "yaml", "yml", "toml", "ruby", "rb"]);
  const mostColoured = 50_000; // characters; longer code stays plain

  // highlight replaces the content of an element by its text with the words of programs marked.
  function highlight(el, text, language) {
    el.textContent = "";
    if (text.length > mostColoured) { el.textContent = text; return; }
    const comment = hashes.has(language) ? "#[^\\n]*" : "\\/\\/[^\\n]*|\\/\\*[^]*?(?:\\*\\/|$)|--[^\\n]*(?=\\n|$)";
    const token = new RegExp("(" + (language === "json" ? "(?!)" : comment) + ")|(\"(?:\\\\.|[^\"\\\\\\n])*\"?|'(?:\\\\.|[^'\\\\\\n])*'?|`(?:\\\\.|[^`\\\\])*`?)|\\b(\\d[\\w.]*)\\b|\\b([A-Za-z_]\\w*)\\b", "g");
    let at = 0;
    for (const m of text.matchAll(token)) {
      // A part of a path or an address, such as /dev/null and 127.0.0.1:8080, is neither a word nor a number of a program.
      if ((m[3] || m[4]) && /(\/|\w:)$/.test(text.slice(Math.max(0, m.index - 2), m.index))) continue;
      const kind = m[1] ? "c-note" : m[2] ? "c-text" : m[3] ? "c-number" : words.has(m[4]) ? "c-word" : "";
      if (!kind) continue;
      el.append(text.slice(at, m.index), make("span", kind, m[0]));
      at = m.index + m[0].length;
    }
    el.append(text.slice(at));
  }

  let blocks = 0;
  // codeBlock is a block of code with its language and a button that copies it.
  function codeBlock(text, language) {
    const box = make("div", "code-box");
    const code = make("code");
    code.id = "block-" + ++blocks;
    highlight(code, text, language.toLowerCase());
    const pre = box.appendChild(make("pre"));
    pre.tabIndex = 0;
    pre.append(code);
    const copy = box.appendChild(make("button", "small copy", "Copy"));
    copy.type = "button";
    copy.dataset.copy = code.id;
    if (language) box.appendChild(make("span", "lang", language));
    return box;
  }

  const safe = (address) => /^(https?:|mailto:)/i.test(address);
  const picture = (address) => /^data:image\/(png|jpeg|gif|webp);base64,/i.test(address);

  // inline appends a line of Markdown to an element: code, strong, emphasis, strike, links, pictures. It reads the text
  // once: a mark that has no end is looked for once, and an end that does not fit is passed a few times at most.
  function inline(to, text, depth = 0) {
    const never = new Set(); // marks without an end from here on
    let at = 0, i = 0;
    const put = (node, end) => { to.append(text.slice(at, i), node); at = i = end; };
    const closing = (mark, from) => {
      if (never.has(mark)) return -1;
      for (let tries = 0, end = from; tries < 20; tries++, end++) {
        end = text.indexOf(mark, end);
        if (end < 0) { never.add(mark); return -1; }
        const after = text[end + mark.length] || "";
        if (end > from && /\S/.test(text[end - 1]) && !(mark[0] === "_" && /\w/.test(after)) && !(mark === "*" && (after === "*" || text[end - 1] === "*"))) return end;
      }
      return -1;
    };
    for (; depth < 8 && i < text.length;) {
      const next = text.slice(i).search(/[`*_~[!h\\]/);
      if (next < 0) break;
      i += next;
      const c = text[i];
      if (c === "\\" && /[\\`*_{}[\]()#+.!~>|-]/.test(text[i + 1] || "")) { put(text[i + 1], i + 2); continue; }
      if (c === "`") {
        const run = text.slice(i).match(/^`+/)[0];
        let end = never.has(run) ? -1 : text.indexOf(run, i + run.length);
        while (end >= 0 && text[end + run.length] === "`") { // a longer run is no end
          end += text.slice(end).match(/^`+/)[0].length;
          end = text.indexOf(run, end);
        }
        if (end < 0) { never.add(run); i += run.length; continue; }
        put(make("code", "", text.slice(i + run.length, end).trim()), end + run.length);
        continue;
      }
      if (c === "[" || (c === "!" && text[i + 1] === "[")) {
        const open = c === "!" ? i + 1 : i;
        const close = never.has("]") ? -1 : text.indexOf("](", open);
        if (close < 0) never.add("]");
        const end = close < 0 || close - open > 1000 ? -1 : text.indexOf(")", close);
        if (end < 0 || text.slice(open, close).includes("\n")) { i = open + 1; continue; }
        put(link(c === "!", text.slice(open + 1, close), text.slice(close + 2, end).trim().split(/\s/)[0], depth), end + 1);
        continue;
      }
      const mark = ["**", "__", "~~", "*", "_"].find((m) => text.startsWith(m, i));
      if (mark && /\S/.test(text[i + mark.length] || " ") && !(mark[0] === "_" && /\w/.test(text[i - 1] || ""))) {
        const end = closing(mark, i + mark.length);
        if (end > 0) {
          put(inline(make({ "**": "strong", __: "strong", "~~": "s" }[mark] || "em"), text.slice(i + mark.length, end), depth + 1), end + mark.length);
          continue;
        }
      }
      if (c === "h" && !/\w/.test(text[i - 1] || "")) {
        const address = text.slice(i, i + 2000).match(/^https?:\/\/[^\s<>"'`)\]]+/)?.[0].replace(/[.,;:!?*_~]+$/, "");
        if (address) { put(link(false, address, address, 9), i + address.length); continue; }
      }
      i += mark?.length || 1;
    }
    to.append(text.slice(at));
    return to;
  }

  function link(isPicture, text, address, depth) {
    if (isPicture && picture(address)) {
      const img = make("img");
      img.src = address;
      img.alt = text;
      return img;
    }
    if (!safe(address)) return document.createTextNode(text);
    const a = make("a");
    a.href = address;
    a.target = "_blank";
    a.rel = "noopener noreferrer nofollow";
    return inline(a, text || address, depth + 1);
  }

  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));

  // markdown returns the elements of a text.
  function markdown(text, depth = 0) {
    const out = document.createDocumentFragment();
    const lines = text.replaceAll("\r\n", "\n").split("\n");
    let base, level = 1; // of headings
    const starts = (line) => /^\s*(```|~~~|#{1,6}\s|>|([-*+]|\d{1,9}[.)])\s)|^\s*([-*_])(\s*\3){2,}\s*$/.test(line);
    for (let i = 0; i < lines.length;) {
      const line = lines[i];
      let m;
      if (!line.trim()) { i++; continue; }
      if ((m = line.match(/^\s*(`{3,}|~{3,})\s*([\w+#.-]*)/))) {
        const body = [];
        for (i++; i < lines.length && !lines[i].trim().startsWith(m[1]); i++) body.push(lines[i]);
        i++;
        out.append(codeBlock(body.join("\n"), m[2]));
      } else if ((m = line.match(/^\s*(#{1,6})\s/))) {
        // The first heading comes below that of the page, and none leaves out a level.
        base ??= m[1].length;
        level = Math.max(2, Math.min(6, level + 1, 2 + m[1].length - base));
        out.append(inline(make("h" + level), line.slice(m[0].length).trim()));
        i++;
      } else if (/^\s*([-*_])(\s*\1){2,}\s*$/.test(line)) {
        out.append(make("hr"));
        i++;
      } else if (/^\s*>/.test(line)) {
        const body = [];
        for (; i < lines.length && /^\s*>/.test(lines[i]); i++) body.push(lines[i].replace(/^\s*> ?/, ""));
        const quote = out.appendChild(make("blockquote"));
        quote.append(depth < 8 ? markdown(body.join("\n"), depth + 1) : body.join("\n"));
      } else if (line.includes("|") && /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/.test(lines[i + 1] || "")) {
        const scroll = out.appendChild(make("div", "scroll"));
        scroll.tabIndex = 0;
        const table = scroll.appendChild(make("table"));
        const head = table.appendChild(make("thead")).appendChild(make("tr"));
        for (const cell of cells(line)) inline(head.appendChild(make("th")), cell);
        const body = table.appendChild(make("tbody"));
        for (i += 2; i < lines.length && lines[i].includes("|"); i++) {
          const row = body.appendChild(make("tr"));
          for (const cell of cells(lines[i])) inline(row.appendChild(make("td")), cell);
        }
      } else if ((m = line.match(/^(\s*)([-*+]|\d{1,9}[.)])\s+/))) {
        const ordered = /\d/.test(m[2]), indent = m[1].length;
        const list = out.appendChild(make(ordered ? "ol" : "ul"));
        if (ordered) list.start = parseInt(m[2], 10);
        while (i < lines.length) {
          const item = lines[i].match(/^(\s*)([-*+]|\d{1,9}[.)])\s+([^]*)$/);
          if (!item || item[1].length !== indent || /\d/.test(item[2]) !== ordered) break;
          const body = [item[3]];
          for (i++; i < lines.length; i++) {
            const next = lines[i], deeper = next.match(/^\s*/)[0].length > indent;
            if (next.trim() ? !deeper && (starts(next) || !body.at(-1).trim()) : !/^\s+\S/.test(lines[i + 1] || "") && !/^\s*([-*+]|\d{1,9}[.)])\s/.test(lines[i + 1] || "")) break;
            body.push(next.replace(new RegExp("^ {0," + (indent + m[2].length + 1) + "}"), ""));
          }
          const li = list.appendChild(make("li"));
          if (body.length === 1 || depth >= 8) inline(li, body.join(" "));
          else li.append(markdown(body.join("\n"), depth + 1));
        }
      } else {
        const body = [line.trim()];
        for (i++; i < lines.length && lines[i].trim() && !starts(lines[i]); i++) body.push(lines[i].trim());
        out.append(inline(make("p"), body.join("\n")));
      }
    }
    return out;
  }

  for (const el of document.querySelectorAll("[data-markdown]")) {
    el.replaceChildren(markdown(el.textContent));
    el.classList.remove("plain");
  }
  for (const el of document.querySelectorAll("code[data-lang]")) highlight(el, el.textContent, el.dataset.lang);
  return { markdown, highlight, codeBlock, make };
})();

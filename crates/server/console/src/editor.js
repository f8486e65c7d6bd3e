// The editor of statements.

import {
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  closeCompletion,
  completionKeymap,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { PostgreSQL, SQLDialect, keywordCompletionSource, schemaCompletionSource } from "@codemirror/lang-sql";
import {
  HighlightStyle,
  LanguageSupport,
  bracketMatching,
  indentOnInput,
  syntaxHighlighting,
} from "@codemirror/language";
import { lintGutter, setDiagnostics } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState, Prec } from "@codemirror/state";
import {
  EditorView,
  drawSelection,
  highlightActiveLine,
  highlightActiveLineGutter,
  highlightSpecialChars,
  keymap,
  lineNumbers,
  placeholder,
} from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { split, statementAt } from "./statements.js";

/** The words of our SQL. PostgreSQL has some hundred more, which would only be in the way of completion. */
const WORDS = `add all alter analyze and any as asc asof at attach begin between both by case cast check checkpoint coalesce
  collate column commit conflict constraint copy create cross cube current database dedup default delete desc
  describe distinct do drop each else end escape except exists explain extract false fetch fill filter first
  following for foreign from full function group grouping groups having horizon if ignore ilike immediate in
  index inner insert intersect interval into is isolation join key keys last lateral latest leading left level
  like limit linear manual matched materialized merge natural nearest next not nothing null nulls of offset on
  only or order outer over overlay partition position preceding prepare prev primary range read recursive
  references refresh rename repeatable replace respect reset returning right rollback rollup row rows sample
  savepoint schema select sequence serializable set sets show similar some splice start symmetric table tables
  temporary then ties time timestamp to tolerance trailing transaction trim true truncate ttl unbounded union
  unique unnest update upsert using vacuum values view when where window with within without write zone`;
const TYPES = `bigint blob boolean date decimal double integer interval ipv4 list long256 numeric real smallint
  struct symbol text time timestamp timestamptz tinyint unsigned uuid varchar`;
/** The library reads words that are separated by one blank each. */
const spaced = (words) => words.replace(/\s+/g, " ");
const DIALECT = SQLDialect.define({ ...PostgreSQL.spec, keywords: spaced(WORDS), types: spaced(TYPES), builtin: "" });

const HIGHLIGHT = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--code-keyword)", fontWeight: "500" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--code-string)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--code-number)" },
  { tag: [tags.lineComment, tags.blockComment], color: "var(--dim)", fontStyle: "italic" },
  { tag: tags.typeName, color: "var(--code-type)" },
]);

const THEME = EditorView.theme({
  "&": { height: "100%", fontSize: "13px", color: "var(--text)", backgroundColor: "var(--panel)" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55" },
  ".cm-content": { caretColor: "var(--text)", padding: "6px 0" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--panel)", color: "var(--faint)", border: "none" },
  ".cm-lineNumbers .cm-gutterElement": { padding: "0 6px 0 10px", minWidth: "28px" },
  ".cm-gutter-lint": { width: "12px" },
  ".cm-activeLine": { backgroundColor: "var(--line)" },
  ".cm-activeLineGutter": { backgroundColor: "transparent", color: "var(--dim)" },
  ".cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground": {
    backgroundColor: "var(--select)",
  },
  ".cm-selectionMatch": { backgroundColor: "var(--match)" },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--match)", outline: "none" },
  ".cm-placeholder": { color: "var(--faint)" },
  ".cm-tooltip": {
    backgroundColor: "var(--panel)",
    border: "1px solid var(--border)",
    borderRadius: "6px",
    boxShadow: "0 6px 20px var(--shadow)",
    color: "var(--text)",
    overflow: "hidden",
  },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", fontSize: "12px", maxHeight: "16em" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "2px 8px", lineHeight: "1.5" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-completionDetail": { fontStyle: "normal", opacity: "0.65", marginLeft: "1em" },
  ".cm-completionMatchedText": { textDecoration: "none", fontWeight: "700" },
  ".cm-tooltip.cm-completionInfo": { padding: "6px 10px", maxWidth: "360px", fontSize: "12px", overflow: "visible" },
  ".cm-diagnostic": { padding: "4px 10px", fontSize: "12px" },
  ".cm-diagnostic-error": { borderLeft: "3px solid var(--error)" },
  ".cm-lintRange-error": {
    backgroundImage: "none",
    textDecoration: "underline wavy var(--error)",
    textDecorationThickness: "1.5px",
    textUnderlineOffset: "3px",
  },
  ".cm-lint-marker-error": {
    content: "normal",
    width: "7px",
    height: "7px",
    marginTop: "6px",
    borderRadius: "50%",
    backgroundColor: "var(--error)",
  },
  ".cm-panels": { backgroundColor: "var(--back)", color: "var(--text)", borderColor: "var(--border)" },
  ".cm-textfield": { backgroundColor: "var(--panel)", border: "1px solid var(--border)", color: "var(--text)" },
  ".cm-button": { backgroundImage: "none", backgroundColor: "var(--panel)", border: "1px solid var(--border)" },
});

/** Whether the word at the cursor follows a point, so that it can only name a column or a table. */
function isMember(context) {
  const word = context.matchBefore(/\.\s*\w*/);
  return word !== null;
}

/** Returns the language with completion of tables, their columns and words. */
function language(catalog) {
  const schema = {};
  for (const table of catalog.tables) {
    const columns = table.columns.map((column) => ({ label: column.name, detail: column.type, type: "property" }));
    const self = { label: table.name, detail: table.kind === "VIEW" ? "view" : "table", type: "class" };
    const place = table.schema === "main" ? schema : (schema[table.schema] ??= {});
    place[table.name] = { self, children: columns };
  }
  const words = keywordCompletionSource(DIALECT, true);
  const complete = (source) => DIALECT.language.data.of({ autocomplete: source });
  return new LanguageSupport(DIALECT.language, [
    complete(schemaCompletionSource({ dialect: DIALECT, schema })),
    complete((context) => (isMember(context) ? null : words(context))),
  ]);
}

/** Completes functions, with the description that the server gives. */
function functionSource(functions) {
  const options = functions.map(({ name, family, description, example }) => ({
    label: name,
    type: "function",
    detail: family,
    apply: `${name}(`,
    info: description
      ? () => Object.assign(document.createElement("div"), { textContent: `${description}  ${example ?? ""}` })
      : null,
    boost: -1,
  }));
  return (context) => {
    const word = context.matchBefore(/[A-Za-z_]\w*/);
    if (!word || isMember(context)) return null;
    return { from: word.from, options, validFor: /^\w*$/ };
  };
}

export class Editor {
  /** `actions` has run, runAll, explain and cancel, which keys call, and changed, which gets every new text. */
  constructor(parent, text, actions) {
    this.language = new Compartment();
    // A list of completions that is left open would take the Escape that cancels the statement.
    const call = (name) => (view) => (closeCompletion(view), actions[name](), true);
    const keys = Prec.highest(
      keymap.of([
        { key: "Mod-Enter", run: call("run") },
        { key: "Mod-Shift-Enter", run: call("runAll") },
        { key: "Mod-Alt-Enter", run: call("explain") },
      ]),
    );
    // In a shadow root, styles are adopted rather than written into the page, which the page's policy forbids.
    const root = parent.attachShadow({ mode: "open" });
    const state = EditorState.create({
      doc: text,
      extensions: [
        keys,
        lineNumbers(),
        highlightActiveLineGutter(),
        highlightSpecialChars(),
        history(),
        drawSelection(),
        indentOnInput(),
        bracketMatching(),
        closeBrackets(),
        autocompletion({ icons: false }),
        highlightActiveLine(),
        highlightSelectionMatches(),
        lintGutter(),
        EditorView.lineWrapping,
        syntaxHighlighting(HIGHLIGHT),
        THEME,
        this.language.of(language({ tables: [] })),
        placeholder("SELECT …      Ctrl-Enter runs the statement at the cursor"),
        keymap.of([
          ...closeBracketsKeymap,
          ...completionKeymap,
          ...defaultKeymap,
          ...historyKeymap,
          ...searchKeymap,
          indentWithTab,
          { key: "Escape", run: call("cancel") },
        ]),
        EditorView.updateListener.of((update) => update.docChanged && actions.changed(update.state.doc.toString())),
        EditorView.contentAttributes.of({ "aria-label": "Statements" }),
      ],
    });
    this.view = new EditorView({ state, root, parent: root });
  }

  setCatalog(catalog) {
    const support = language(catalog);
    const functions = support.language.data.of({ autocomplete: functionSource(catalog.functions) });
    this.view.dispatch({ effects: this.language.reconfigure([support, functions]) });
  }

  get text() {
    return this.view.state.doc.toString();
  }

  set text(text) {
    this.view.dispatch({
      changes: { from: 0, to: this.view.state.doc.length, insert: text },
      selection: { anchor: text.length },
    });
  }

  /** Adds a statement after the others and puts the cursor there. */
  append(text) {
    const { doc } = this.view.state;
    const before = doc.toString().trimEnd();
    const glue = before === "" ? "" : before.endsWith(";") ? "\n\n" : ";\n\n";
    const insert = `${glue}${text}`;
    const from = before.length;
    this.view.dispatch({
      changes: { from, to: doc.length, insert },
      selection: { anchor: from + insert.length },
      scrollIntoView: true,
    });
    this.view.focus();
  }

  /** Puts a text in the place of the selection. */
  insert(text) {
    this.view.dispatch(this.view.state.replaceSelection(text));
    this.view.focus();
  }

  /** The selected statement, or the one at the cursor. */
  current() {
    const { from, to, head } = this.view.state.selection.main;
    if (from < to) {
      const [first] = split(this.view.state.sliceDoc(from, to));
      return first && { text: first.text, from: from + first.from, to: from + first.to };
    }
    return statementAt(this.text, head);
  }

  all() {
    return split(this.text);
  }

  /** Underlines the place of an error of a statement that begins at `from`. */
  showError(error, statement) {
    const { state } = this.view;
    if (!error || !statement || !error.line) {
      this.view.dispatch(setDiagnostics(state, []));
      return;
    }
    const lines = statement.text.split("\n");
    const before = lines.slice(0, error.line - 1).reduce((sum, line) => sum + line.length + 1, 0);
    const line = lines[error.line - 1] ?? "";
    const start = [...line].slice(0, (error.column ?? 1) - 1).join("").length;
    const word = /^(\w+|"[^"]*"|'[^']*'|.)/.exec(line.slice(start))?.[0] ?? "";
    const from = Math.min(statement.from + before + start, state.doc.length);
    const to = Math.min(from + Math.max(word.length, 1), state.doc.length);
    const message = error.hint ? `${error.message}\n${error.hint}` : error.message;
    this.view.dispatch(setDiagnostics(state, [{ from: Math.min(from, to), to, severity: "error", message }]));
  }

  focus() {
    this.view.focus();
  }
}

// Finds the statements of a text.

/**
 * Returns the statements of a text as {text, from, to}, without their semicolons. Quotes, comments and dollar quotes
 * hide semicolons, as in SQL.
 */
export function split(text) {
  const found = [];
  const token = /'(?:[^']|'')*'?|"(?:[^"]|"")*"?|--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|(\$\w*\$)[\s\S]*?(?:\1|$)|;|[^\s;]/g;
  let [from, to] = [-1, -1];
  const end = () => {
    if (from >= 0) found.push({ text: text.slice(from, to), from, to });
    from = -1;
  };
  for (const match of text.matchAll(token)) {
    const word = match[0];
    if (word === ";") end();
    else if (!word.startsWith("--") && !word.startsWith("/*")) {
      if (from < 0) from = match.index;
      to = match.index + word.length;
    }
  }
  end();
  return found;
}

/** Returns the statement at a place of a text: the one around it, or the last one before it. */
export function statementAt(text, place) {
  const all = split(text);
  return (
    all.find(({ from, to }) => from <= place && place <= to + 1) ?? all.findLast(({ to }) => to <= place) ?? all[0]
  );
}

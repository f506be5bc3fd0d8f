// The second part of the prelude: JSON that the parent's strict parser takes over exactly.

const LONE = /(?<!\\)(?:\\\\)*\\ud[89a-f]/;
const LONG_INTEGER = /(?<![.0-9])[0-9]{16,}(?![.0-9eE])/;
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?/g;
const NESTING = /"[^"\\]*(?:\\.[^"\\]*)*"|[[\]{}]/g;

// JavaScript rounds the digits of integers above 2^53 that it writes: put those of the number itself.
function exactIntegers(json) {
  const pieces = { __proto__: null, length: 0 };
  let from = 0;
  TOKEN.lastIndex = 0;
  for (let hit; (hit = apply(exec, TOKEN, [json])) !== null;) {
    const token = hit[0];
    if (token[0] === '"' || token.length < 16) continue;
    if (apply(includes, token, ["."]) || apply(includes, token, ["e"])) continue;
    pieces[pieces.length++] = apply(slice, json, [from, hit.index]);
    pieces[pieces.length++] = text(exact(+token));
    from = hit.index + token.length;
  }
  pieces[pieces.length++] = apply(slice, json, [from]);
  return apply(join, pieces, [""]);
}

function isTooDeep(json) {
  let depth = 0;
  NESTING.lastIndex = 0;
  for (let hit; (hit = apply(exec, NESTING, [json])) !== null;) {
    const token = hit[0];
    if (token === "[" || token === "{") {
      if (++depth > MAX_DEPTH) return true;
    } else if (token === "]" || token === "}") depth--;
  }
  return false;
}

// The JSON text of a string; `what` begins the sentence that refuses it.
function encodeString(s, what) {
  const json = quote(s);
  if (apply(includes, json, ["\\ud"]) && apply(exec, LONE, [json]) !== null) {
    throw refuse("lone_surrogate", what + " holds a lone surrogate, which is not text.");
  }
  return json;
}

// The JSON text of any value of the script.
function encode(v, what) {
  if (typeof v === "string") return encodeString(v, what);
  let json;
  try {
    json = stringify(v);
  } catch (error) {
    throw refuse("not_json", what + " cannot be written as JSON: " + describe(error));
  }
  if (typeof json !== "string") {
    throw refuse("not_json", what + " is not JSON but " + (v === undefined ? "undefined." : "a " + typeof v + "."));
  }
  if (apply(includes, json, ["\\ud"]) && apply(exec, LONE, [json]) !== null) {
    throw refuse("lone_surrogate", what + " holds a lone surrogate, which is not text.");
  }
  if (apply(exec, LONG_INTEGER, [json]) !== null) json = exactIntegers(json);
  if (json.length > 2 * MAX_DEPTH && isTooDeep(json)) {
    throw refuse("too_deep", what + " is nested deeper than " + MAX_DEPTH + " levels.");
  }
  return json;
}

// An additional part of the prelude, only in a worker that looks on while a recorded run is replayed: probes, pauses,
// and looking at values. Nothing here runs code of the script, except the expressions that are asked for.

let wait = null; // blocks until the parent sends a command; given an answer first
let tell = null; // tells the parent at once how many statements have begun
let tracing = false;
let planned = { __proto__: null, statement: -1, call: -1, from: 0 };
let breaks = null; // by statement: 1 where a breakpoint is
let hits = null; // by statement: how often it began
let capturing = true;
let inspecting = false;
let ran = false; // whether looking has run a statement of the script
let statements = 0;
let site = -1;
let closure = null;
let recorded = -1; // the statement count of the latest breakpoint that was passed without stopping
let callSites = null; // by call, from 0: the statement that makes it, as far as the parent knows
let at = null; // the scope of the call at which the script is paused
const siteClosures = create(null); // statement -> where it began the last time
const siteBegan = create(null); // statement -> the count of statements when it began the last time
const callScopes = create(null); // call id -> {closure, site}

const evaluators = { ReferenceFault: ReferenceError.prototype, SyntaxFault: SyntaxError.prototype };
const promisePrototype = EnginePromise.prototype;
const objectPrototype = Object.prototype;
const errorPrototype = EngineError.prototype;
const { getOwnPropertyDescriptor } = Object;
const { isWellFormed, endsWith } = String.prototype;
const { forEach: mapForEach } = Map.prototype;
const { forEach: setForEach } = Set.prototype;
const mapSize = getOwnPropertyDescriptor(Map.prototype, "size").get;
const setSize = getOwnPropertyDescriptor(Set.prototype, "size").get;
const regexpSource = getOwnPropertyDescriptor(RegExp.prototype, "source").get;
// The getter of `flags` asks the object for each flag, which may run code of the script; these do not.
const flagNames = ["hasIndices", "global", "ignoreCase", "multiline", "dotAll", "unicode", "unicodeSets", "sticky"];
const flagLetters = "dgimsuvy";
const flagGetters = [];
for (let i = 0; i < flagNames.length; i++) {
  flagGetters[i] = getOwnPropertyDescriptor(RegExp.prototype, flagNames[i])?.get;
}
const typedLength = getOwnPropertyDescriptor(getPrototypeOf(Uint8Array.prototype), "length").get;
const { has: setHas, add: setAdd, delete: setDelete } = WeakSet.prototype;
const Bytes = Uint8Array;
const Counts = Uint32Array;
const NewSet = WeakSet;

// ---- proxies: to look into one would run its handler, so those that the script makes are remembered ---------

const proxies = new WeakSet();
{
  const PlainProxy = Proxy;
  const plainRevocable = Proxy.revocable;
  const { construct, get: reflectGet } = Reflect;
  const revocable = {
    revocable(target, handler) {
      const made = apply(plainRevocable, PlainProxy, [target, handler]);
      apply(setAdd, proxies, [made.proxy]);
      return made;
    },
  }.revocable;
  defineProperty(realm, "Proxy", {
    __proto__: null, writable: true, enumerable: false, configurable: true,
    value: new PlainProxy(PlainProxy, {
      __proto__: null,
      construct(target, given) {
        const made = construct(target, given);
        apply(setAdd, proxies, [made]);
        return made;
      },
      get: (target, key, receiver) => (key === "revocable" ? revocable : reflectGet(target, key, receiver)),
    }),
  });
}

// ---- probes ------------------------------------------------------------------------------------------------

function probe(what) {
  if (typeof what === "number") {
    if (inspecting) {
      ran = true;
      return false;
    }
    site = what;
    statements++;
    if (hits !== null) hits[what]++;
    return capturing;
  }
  closure = what;
  siteClosures[site] = what;
  siteBegan[site] = statements;
  if (tracing) tell(statements);
  if (statements === planned.statement) {
    pauseHere("statement");
  } else if (breaks !== null && breaks[site] === 1) {
    if (statements > planned.from) pauseHere("breakpoint");
    else recorded = statements;
  }
  return false;
}

const admitPlain = admit;
admit = (call) => {
  if (inspecting) throw refuse("console", "An expression in the console cannot ask for anything.");
  admitPlain(call);
  // After an await in the middle of a statement the latest statement may be another function's.
  const known = callSites !== null && queued < callSites.length ? callSites[queued] : -1;
  const scope = known >= 0 && siteClosures[known] !== undefined
    ? { __proto__: null, closure: siteClosures[known], site: known } : { __proto__: null, closure, site };
  callScopes[lastId + 1] = scope;
  if (queued === planned.call) {
    at = scope;
    pauseHere("call");
    at = null;
  }
};

function state(stop) {
  return apply(join, [
    '{"stop":', quote(stop), ',"statements":', text(statements), ',"site":', text(at === null ? site : at.site), ',"queued":', text(queued),
    ',"recorded":', text(recorded), ',"ended":', ended ? "true" : "false", "}",
  ], [""]);
}

function pauseHere(stop) {
  let answer = state(stop);
  for (;;) {
    const command = parse(wait(answer));
    if (command.op === "go") {
      setPlan(command);
      return;
    }
    answer = perform(command);
  }
}

function setPlan(command) {
  planned = { __proto__: null, statement: command.statement, call: command.call, from: command.from };
  capturing = command.capture;
  tracing = command.trace;
  recorded = -1;
  breaks = null;
  const { stops, sites } = command;
  if (stops.length > 0) {
    breaks = new Bytes(sites);
    for (let i = 0; i < stops.length; i++) breaks[stops[i]] = 1;
  }
  if (command.count && hits === null) hits = new Counts(sites);
}

// The parent's questions. `call` looks from where that call was made, `site` from where that statement began the last
// time, instead of from the latest statement.
function perform(command) {
  const { op } = command;
  if (op === "state") return state("asked");
  if (op === "hits") return hits === null ? "[]" : apply(join, ["[", apply(join, hitList(), [","]), "]"], [""]);
  if (op === "calls") {
    callSites = command.sites;
    return "null";
  }
  if (op === "latest") return text(latestOf(command.sites));
  const scope = (command.site >= 0 ? { __proto__: null, closure: siteClosures[command.site] || null, site: command.site }
    : command.call === null ? at : callScopes[command.call]) || { __proto__: null, closure, site };
  if (op === "where") return text(scope.site);
  const from = scope.closure;
  const values = { __proto__: null, length: 0 };
  inspecting = true;
  ran = false;
  left = command.budget;
  try {
    const { expressions } = command;
    for (let i = 0; i < expressions.length; i++) values[values.length++] = lookAt(from, expressions[i], command);
  } finally {
    inspecting = false;
  }
  return apply(join, ['{"ran":', text(ran), ',"values":[', apply(join, values, [","]), "]}"], [""]);
}

// The statement of `sites` that began last, or -1 where none has begun.
function latestOf(sites) {
  let found = -1;
  for (let i = 0; i < sites.length; i++) {
    const began = siteBegan[sites[i]];
    if (began !== undefined && (found < 0 || began > siteBegan[found])) found = sites[i];
  }
  return found;
}

function hitList() {
  const list = { __proto__: null, length: hits.length };
  for (let i = 0; i < hits.length; i++) list[i] = text(hits[i]);
  return list;
}

function lookAt(from, expression, bounds) {
  let value;
  try {
    value = from === null ? evaluate("(" + expression + "\n)") : evaluateIn(from, expression);
  } catch (error) {
    return failure(error);
  }
  try {
    return shownValue(value, bounds.depth, bounds, new NewSet());
  } catch {
    return '{"$type":"hidden"}';
  }
}

function evaluateIn(from, expression) {
  try {
    return from("(" + expression + "\n)");
  } catch (error) {
    if (isObject(error) && getPrototypeOf(error) === evaluators.SyntaxFault) return from(expression);
    throw error;
  }
}

function failure(error) {
  const message = ownText(error, "message");
  if (isObject(error) && getPrototypeOf(error) === evaluators.ReferenceFault &&
      apply(endsWith, message, [" is not initialized"])) return '{"$type":"unassigned"}';
  return '{"$type":"error","name":' + quote(errorName(error)) + ',"message":' + quote(bounded(message)) + "}";
}

// ---- values as JSON; what JSON cannot say as {"$type": ...} --------------------------------------------------

let left = 0; // characters that the answer may still take

function spend(json) {
  left -= json.length;
  return json;
}

function shownValue(v, depth, bounds, above) {
  if (left <= 0) return '{"$type":"more"}';
  switch (typeof v) {
    case "string": return spend(shownText(v, bounds.text));
    case "boolean": return spend(text(v));
    case "number":
      if (v !== v || v === Infinity || v === -Infinity || (v === 0 && 1 / v < 0)) {
        return spend('{"$type":"number","value":' + quote(v === 0 ? "-0" : text(v)) + "}");
      }
      return spend(stringify(v));
    case "undefined": return spend('{"$type":"undefined"}');
    case "bigint": return spend('{"$type":"bigint","value":' + shownText(text(v), 400) + "}");
    case "symbol": return spend('{"$type":"symbol","value":' + shownText(text(v), 400) + "}");
    case "function": return spend(shownFunction(v));
  }
  if (v === null) return spend("null");
  if (apply(setHas, proxies, [v])) return spend('{"$type":"proxy"}');
  if (apply(setHas, above, [v])) return spend('{"$type":"cycle"}');
  if (depth <= 0) return spend('{"$type":"more"}');
  apply(setAdd, above, [v]);
  const json = shownObject(v, depth, bounds, above);
  apply(setDelete, above, [v]);
  return json;
}

function shownText(s, most) {
  if (s.length <= most && apply(isWellFormed, s, [])) return quote(s);
  const part = apply(toWellFormed, s.length > most ? apply(slice, s, [0, most]) : s, []);
  return '{"$type":"text","value":' + quote(part) + ',"length":' + s.length + "}";
}

function shownFunction(f) {
  if (apply(setHas, proxies, [f])) return '{"$type":"proxy"}';
  return '{"$type":"function","name":' + shownText(ownText(f, "name"), 200) + "}";
}

function ownText(v, key) {
  if (!isObject(v) || apply(setHas, proxies, [v])) return "";
  const found = getOwnPropertyDescriptor(v, key);
  return found !== undefined && typeof found.value === "string" ? found.value : "";
}

function isError(v) {
  let at = getPrototypeOf(v);
  for (let i = 0; i < 20 && at !== null && !apply(setHas, proxies, [at]); i++) {
    if (at === errorPrototype) return true;
    at = getPrototypeOf(at);
  }
  return false;
}

function errorName(v) {
  let at = v;
  for (let i = 0; i < 20 && isObject(at) && !apply(setHas, proxies, [at]); i++) {
    const name = ownText(at, "name");
    if (name !== "") return apply(slice, name, [0, 200]);
    at = getPrototypeOf(at);
  }
  return "Error";
}

function shownPromise(v) {
  for (let i = 0; i < trackedCount; i++) {
    if (tracked[i].promise === v) {
      return '{"$type":"promise","state":"pending","of":' + shownText(tracked[i].label, 200) + "}";
    }
  }
  return '{"$type":"promise"}';
}

const brand = (getter, v) => {
  try {
    return apply(getter, v, []);
  } catch {
    return undefined;
  }
};

function shownObject(v, depth, bounds, above) {
  if (isArray(v)) return shownList(v, v.length, depth, bounds, above);
  if (getPrototypeOf(v) === promisePrototype) return spend(shownPromise(v));
  if (isError(v)) {
    return spend('{"$type":"error","name":' + shownText(errorName(v), 200) +
      ',"message":' + shownText(ownText(v, "message"), bounds.text) + "}");
  }
  let size = brand(mapSize, v);
  if (size !== undefined) return shownEntries("map", mapForEach, v, size, depth, bounds, above);
  size = brand(setSize, v);
  if (size !== undefined) return shownEntries("set", setForEach, v, size, depth, bounds, above);
  size = brand(typedLength, v);
  if (size !== undefined) {
    return '{"$type":"typed array","value":' + shownList(v, size, depth, bounds, above) + "}";
  }
  const prototype = getPrototypeOf(v);
  if (prototype !== null && prototype !== objectPrototype && !hasOwn(v, "source")) {
    const source = brand(regexpSource, v);
    if (source !== undefined) {
      let flags = "";
      for (let i = 0; i < flagGetters.length; i++) {
        if (brand(flagGetters[i], v) === true) flags += flagLetters[i];
      }
      const more = flags === "" ? "" : ',"flags":' + quote(flags);
      return spend('{"$type":"regexp","value":' + shownText(source, 400) + more + "}");
    }
  }
  return shownRecord(v, prototype, depth, bounds, above);
}

function shownList(v, length, depth, bounds, above) {
  const items = { __proto__: null, length: 0 };
  for (let i = 0; i < length && i < bounds.keys && left > 0; i++) {
    items[items.length++] = shownProperty(getOwnPropertyDescriptor(v, i), depth, bounds, above);
  }
  if (items.length < length) {
    items[items.length] = spend('{"$type":"more","count":' + (length - items.length) + "}");
    items.length++;
  }
  return "[" + apply(join, items, [","]) + "]";
}

function shownProperty(found, depth, bounds, above) {
  if (found === undefined) return spend('{"$type":"hole"}');
  if (!hasOwn(found, "value")) return spend('{"$type":"getter"}');
  return shownValue(found.value, depth - 1, bounds, above);
}

function shownEntries(type, each, v, size, depth, bounds, above) {
  const items = { __proto__: null, length: 0 };
  apply(each, v, [(value, key) => {
    if (items.length >= bounds.keys || left <= 0) return;
    const shownIt = shownValue(value, depth - 1, bounds, above);
    items[items.length++] = type === "set" ? shownIt
      : "[" + shownValue(key, depth - 1, bounds, above) + "," + shownIt + "]";
  }]);
  return '{"$type":"' + type + '","size":' + size + ',"value":[' + apply(join, items, [","]) + "]}";
}

function shownRecord(v, prototype, depth, bounds, above) {
  const keys = ownKeys(v);
  const items = { __proto__: null, length: 0 };
  let count = 0;
  let typed = false; // whether it would read as something else: "$type" is what the rest is told by
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i];
    if (typeof key !== "string") continue;
    const found = getOwnPropertyDescriptor(v, key);
    if (found === undefined || !found.enumerable) continue;
    count++;
    if (key === "$type") typed = true;
    if (items.length >= bounds.keys || left <= 0) continue;
    const name = spend(quote(apply(toWellFormed, key, [])));
    items[items.length++] = name + ":" + shownProperty(found, depth, bounds, above);
  }
  const plain = "{" + apply(join, items, [","]) + "}";
  if (count === items.length && !typed && (prototype === objectPrototype || prototype === null)) return plain;
  const maker = prototype !== null && isObject(prototype) && !apply(setHas, proxies, [prototype])
    ? getOwnPropertyDescriptor(prototype, "constructor") : undefined;
  const name = maker !== undefined && typeof maker.value === "function" ? ownText(maker.value, "name") : "";
  return '{"$type":"object","class":' + shownText(name, 200) + ',"value":' + plain +
    (count > items.length ? ',"more":' + (count - items.length) : "") + "}";
}

// ---- what the child process calls -----------------------------------------------------------------------------

entries.probes = () => {
  wait = realm.__wait;
  delete realm.__wait;
  tell = realm.__tell;
  delete realm.__tell;
};
// A script without probes is compiled as ever. The wrapper binds `eval` itself, so that a probe's is a direct one.
entries.compileProbed = (source, linesBefore, lineCount, name) => {
  const problemFound = compile(source, linesBefore, lineCount);
  if (problemFound !== null || name === "") return problemFound;
  const padding = apply(repeat, "\n", [linesBefore]);
  try {
    body = evaluate(padding + "((" + name + ", eval) => async () => { \"use strict\";\n" + source + "\n})")(probe, evaluate);
  } catch (error) {
    return problem(error);
  }
  return null;
};
entries.command = (json) => {
  const command = parse(json);
  if (command.op !== "go") return perform(command);
  setPlan(command);
  return "";
};
entries.state = state;

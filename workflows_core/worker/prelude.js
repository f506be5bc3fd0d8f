// The first of four parts that are joined into one strict function and run before the script, in its realm:
// the captured built-ins, positions, the script's globals, and errors.
//
// A script may redefine any built-in, so everything used later is captured here. Once the script has started,
// no part may look a method up on an object that the script can reach: no spread of its values, no for-of, no
// array destructuring, no `.then`, no assignment to a missing array index; descriptors and records have no
// prototype.

const realm = globalThis;
const { apply, defineProperty, getPrototypeOf, ownKeys } = Reflect;
const { create, freeze, hasOwn } = Object;
const { isArray } = Array;
const { stringify, parse } = JSON;
const evaluate = eval;
const enqueue = queueMicrotask;
const text = String;
const exact = BigInt;
const EnginePromise = Promise;
const EngineError = Error;
const RangeFault = RangeError.prototype;
const InternalFault = InternalError.prototype;
const TypeFault = TypeError;
const { exec } = RegExp.prototype;
const { slice, includes, repeat, toWellFormed } = String.prototype;
const { join } = Array.prototype;
const { get: weakGet, set: weakSet } = WeakMap.prototype;

const FRAME_BYTES = 40960; // what is packed together; the canonical form may be a fifth longer
const MAX_DEPTH = 190; // the parser takes 200, and a frame wraps what it carries
const MAX_MESSAGE = 2000;
const TURN_CALLS = 256; // above what the limits of a run admit, and little enough for the parent to read
const TURN_BYTES = 1048576;

const quote = (s) => stringify(s);
const isObject = (v) => (typeof v === "object" && v !== null) || typeof v === "function";

// ---- positions -----------------------------------------------------------------------------------------
// A place is the JSON text of two pairs, line and column each: where the function was read, and where it was
// called. The second is only the last expression of the call that the engine knows a place of; the parent
// takes the first when the source shows a call there.

let firstLine = -1; // the line of the wrapper, before the script's first
let lastLine = 0;
let latest = "[]";
const places = new WeakMap(); // Error -> place

// A script can swallow the interruption of an entry and go on, and what it has computed by then depends on the
// machine's speed: nothing that it queues after `cut` may leave.
let interrupted = false;
let interruptedAt = "[]";
let cut = 0;

Error.prepareStackTrace = (error, sites) => {
  const first = !interrupted && isInternal(error, "interrupted");
  if (first) {
    interrupted = true;
    cut = queued;
  }
  latest = "[]";
  for (let i = 0; i < sites.length; i++) {
    const line = sites[i].getLineNumber();
    if (line >= firstLine && line <= lastLine) {
      // What the engine has no place for is placed where the function begins.
      latest = line === firstLine ? "[1,1]" : "[" + (line - firstLine) + "," + sites[i].getColumnNumber() + "]";
      apply(weakSet, places, [error, "[]," + latest]);
      // A loop that calls nothing has the place of the call before it, or where its function begins; where that is
      // the script itself, nothing is known.
      if (first && line !== firstLine) interruptedAt = latest;
      break;
    }
  }
  return "";
};
const isInternal = (error, message) =>
  getPrototypeOf(error) === InternalFault && hasOwn(error, "message") && error.message === message;
const here = () => {
  latest = "[]";
  new EngineError();
  return latest;
};
const placeOf = (v) => (isObject(v) && apply(weakGet, places, [v])) || "[],[]";

// ---- the realm of the script ---------------------------------------------------------------------------

const KEPT = create(null);
for (const name of [
  "Object", "Function", "Error", "EvalError", "RangeError", "ReferenceError", "SyntaxError", "TypeError",
  "URIError", "InternalError", "AggregateError", "Iterator", "Array", "parseInt", "parseFloat", "isNaN",
  "isFinite", "queueMicrotask", "decodeURI", "decodeURIComponent", "encodeURI", "encodeURIComponent", "escape",
  "unescape", "Infinity", "NaN", "undefined", "eval", "Number", "Boolean", "String", "Math", "Reflect", "Symbol",
  "globalThis", "BigInt", "RegExp", "JSON", "Proxy", "Map", "Set", "WeakMap", "WeakSet", "ArrayBuffer",
  "Uint8ClampedArray", "Int8Array", "Uint8Array", "Int16Array", "Uint16Array", "Int32Array", "Uint32Array",
  "BigInt64Array", "BigUint64Array", "Float16Array", "Float32Array", "Float64Array", "DataView", "Promise",
  "btoa", "atob",
]) KEPT[name] = true;
for (const key of ownKeys(realm)) {
  if (!KEPT[key] && !delete realm[key]) throw new Error("a global cannot be removed: " + text(key));
}
delete Math.random;
for (const key of ["prepareStackTrace", "captureStackTrace", "stackTraceLimit"]) delete Error[key];
for (const key of ["fileName", "lineNumber", "columnNumber", "caller", "arguments"]) {
  delete Function.prototype[key];
}
defineProperty(Error.prototype, "stack", {
  __proto__: null, get() { return ""; }, set(_) {}, enumerable: false, configurable: false,
});
defineProperty(Function.prototype, "toString", {
  __proto__: null, writable: true, enumerable: false, configurable: true,
  value: {
    toString() {
      if (typeof this !== "function") throw new TypeFault("not a function");
      return "function () { [source not shown] }";
    },
  }.toString,
});

// ---- errors --------------------------------------------------------------------------------------------

const made = new WeakMap(); // Error -> the canonical record of an error that the bridge made

function fault(name, code, message, place) {
  const error = new EngineError(message);
  defineProperty(error, "name", { __proto__: null, value: name, writable: true, configurable: true });
  defineProperty(error, "code", {
    __proto__: null, value: code, writable: true, enumerable: true, configurable: true,
  });
  apply(weakSet, made, [error, { __proto__: null, name, code, message }]);
  if (place !== null) apply(weakSet, places, [error, place]);
  return error;
}
const refuse = (code, message) => fault("WorkflowError", code, message, null);
const recordOf = (v) => (isObject(v) && apply(weakGet, made, [v])) || null;

function bounded(message) {
  message = apply(toWellFormed, message, []);
  if (message.length <= MAX_MESSAGE) return message;
  return apply(toWellFormed, apply(slice, message, [0, MAX_MESSAGE]), []) +
    "… (" + (message.length - MAX_MESSAGE) + " more characters)";
}

// "Name: message" of whatever was thrown. Getters and proxies of the script may run here, and throw.
function describe(thrown) {
  try {
    const record = recordOf(thrown);
    if (record !== null) return bounded(record.name + ": " + record.message);
    if (isObject(thrown)) {
      const { name, message } = thrown;
      if (typeof message === "string") {
        const head = typeof name === "string" && name !== "" ? name : "Error";
        return bounded(message === "" ? head : head + ": " + message);
      }
      const shown = stringify(thrown);
      return bounded("Thrown: " + (typeof shown === "string" ? shown : "a " + typeof thrown));
    }
    return bounded("Thrown: " + (typeof thrown === "string" ? quote(thrown) : text(thrown)));
  } catch {
    return "Thrown: a value that cannot be described";
  }
}

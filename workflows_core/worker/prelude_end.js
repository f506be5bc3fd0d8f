// The last part of the prelude: how a script ends, and what the child process calls.

let endText = null;
let endPlace = "[],[]";
let endLimit = null; // the limit that ended the script uncaught
let threwNull = false;
let body = null;

function endWith(name, code, message, place) {
  endPlace = place;
  endText = '{"by":"script","ok":false,"error":{"name":' + quote(name) + ',"code":' + quote(code) +
    ',"message":' + quote(message) + "}}";
}

// The limit that an error of the engine stands for, when nothing caught it.
function limitOf(error) {
  if (!isObject(error)) return null;
  if (isInternal(error, "out of memory")) return "memory_limit";
  if (isInternal(error, "interrupted")) return "time_limit";
  return getPrototypeOf(error) === RangeFault && hasOwn(error, "message") &&
    error.message === "Maximum call stack size exceeded" ? "stack_limit" : null;
}

function endFailed(error) {
  const record = recordOf(error);
  if (record !== null) return endWith(record.name, record.code, describe(error), placeOf(error));
  threwNull = error === null;
  let name = "Error";
  try {
    endLimit = limitOf(error);
    if (isObject(error)) {
      const { name: given } = error;
      if (typeof given === "string" && given !== "") name = apply(toWellFormed, apply(slice, given, [0, 80]), []);
    }
  } catch {
    name = "Error"; // a getter or proxy of the script refused; the message says what can be said
  }
  return endWith(name, "script_error", describe(error), placeOf(error));
}

// Calls that nothing awaited. They are judged when the script returns, not when they settle.
function endUnawaited() {
  let names = "";
  let place = null;
  for (let i = 0; i < trackedCount; i++) {
    const t = tracked[i];
    if (t.settled && t.used) continue;
    if (t.error !== null) {
      endWith("WorkflowError", "unhandled_rejection",
        bounded("Nothing awaited " + t.label + ", which was rejected: " + describe(t.error.thrown)), t.place);
      return true;
    }
    names += (place === null ? "" : ", ") + t.label;
    if (place === null) place = t.place;
  }
  if (place === null) return false;
  endWith("WorkflowError", "unawaited_call",
    bounded("The script returned before it had awaited " + names + ". Await every call before returning."), place);
  return true;
}

function finish(ok, result) {
  if (ended) return;
  ended = true;
  if (!ok) {
    endFailed(result);
  } else if (!endUnawaited()) {
    try {
      endText = '{"by":"script","ok":true,"value":' +
        (result === undefined ? "null" : encode(result, "The value that the script returns")) + "}";
    } catch (error) {
      endWith("WorkflowError", "result_not_json", bounded(error.message), "[],[]");
    }
  }
  enqueue(() => { throw null; }); // stops the child's loop over jobs: nothing of the script matters any more
}

async function watch(main) {
  try {
    finish(true, await main);
  } catch (error) {
    finish(false, error);
  }
}

// A script that two wrappers accept is one function body. Text that closes the function early must go on with
// `)` or `,` in the second wrapper, since an arrow function takes no operator, and neither can follow a method in
// the class of the first. The first is compiled only, since it throws before anything of it runs.
function compile(source, linesBefore, lineCount) {
  const padding = apply(repeat, "\n", [linesBefore]);
  firstLine = linesBefore + 1;
  lastLine = firstLine + lineCount + 1; // a script that is not finished fails in the line behind it
  try {
    evaluate(padding + 'throw 0; (class { async script() { "use strict";\n' + source + "\n} })");
  } catch (error) {
    if (error !== 0) return problem(error);
  }
  try {
    body = evaluate(padding + '(async () => { "use strict";\n' + source + "\n})");
  } catch (error) {
    return problem(error);
  }
  lastLine = firstLine + lineCount;
  return null;
}

function problem(error) {
  const code = error === null ? "memory_limit" : limitOf(error) || "script_error";
  return apply(join, ['{"code":', quote(code), ',"message":', quote(describe(error)),
    ',"places":[[', placeOf(error), "]]}"], [""]);
}

function freezeDeep(v) {
  if (isObject(v)) {
    const keys = ownKeys(v);
    for (let i = 0; i < keys.length; i++) freezeDeep(v[keys[i]]);
    freeze(v);
  }
  return v;
}

// A response that names no outstanding call is a fault of the parent, and ends the process.
function deliver(results) {
  for (let i = 0; i < results.length; i++) {
    const result = results[i];
    const t = pending[result.id];
    if (!t) throw new EngineError("no call " + result.id + " is outstanding");
    delete pending[result.id];
    outstanding--;
    if (alone === t) alone = null;
    if (result.ok === true) {
      settle(t, true, result.value);
    } else {
      const { name, code, message } = result.error;
      settle(t, false, fault(name, code, message, t.place));
    }
  }
}

let framePlaces = "[]";
const ASCII = /^[\x00-\x7f]*$/;

// The next request frame of this turn, or null. What one frame cannot hold goes into further ones.
function nextFrame(isCut) {
  const last = isCut ? cut : queued;
  if (sent >= last) {
    turnBytes = 0;
    return null;
  }
  const calls = { __proto__: null, length: 0 };
  const from = { __proto__: null, length: 0 };
  let size = 40;
  while (sent < last) {
    const call = outbox[sent];
    const most = apply(exec, ASCII, [call]) !== null ? call.length : call.length * 3;
    if (calls.length > 0 && size + most > FRAME_BYTES) break;
    size += most + 1;
    from[from.length++] = "[" + outPlaces[sent] + "]";
    calls[calls.length++] = call;
    delete outbox[sent];
    delete outPlaces[sent];
    sent++;
  }
  framePlaces = apply(join, ["[", apply(join, from, [","]), "]"], [""]);
  return apply(join, ['{"calls":[', apply(join, calls, [","]), sent < last ? '],"more":true}' : "]}"], [""]);
}

const entries = {
  __proto__: null,
  compile,
  args(json) {
    defineProperty(realm, "args", {
      __proto__: null, value: freezeDeep(parse(json)), writable: false, enumerable: true, configurable: false,
    });
  },
  run() {
    const main = body();
    defineProperty(main, "constructor", { __proto__: null, value: EnginePromise });
    watch(main);
  },
  // One batch of responses is one entry, however many frames it takes.
  deliver(...frames) {
    for (let i = 0; i < frames.length; i++) deliver(parse(frames[i]).results);
  },
  frame: nextFrame,
  framePlaces: () => framePlaces,
  outstanding: () => outstanding,
  ended: () => ended,
  endLimit: () => endLimit,
  threwNull: () => threwNull,
  interrupted: () => interrupted,
  interruptedPlaces: () => apply(join, ["[[[],", interruptedAt, "]]"], [""]),
  overflowed: () => overflowed,
  end: () => (endText === null ? null : apply(join, [endText], [""])),
  endPlaces: () => apply(join, ["[[", endPlace, "]]"], [""]),
};

const bridge = (name, ...values) => apply(entries[name], undefined, values);

; Later patterns override earlier ones. Of a template only its text is a string: what stands in ${…} is code.
; A pattern looks at a node and its parent only: rows that the parser leaves alone are not queried again.
(string) @string
(template_string "`" @string)
(template_string (string_fragment) @string)
(escape_sequence) @escape
(template_substitution "${" @keyword)
(template_substitution "}" @keyword)
(regex) @regex

(number) @number
[(true) (false) (null) (undefined) (this)] @literal

((identifier) @api
  (#any-of? @api "agent" "parallel" "log" "pause" "humanCheckpoint" "captureArtifact" "readArtifact" "args"))

[
  "as" "async" "await" "break" "case" "catch" "class" "const" "continue" "debugger" "default" "delete" "do"
  "else" "export" "extends" "finally" "for" "from" "function" "get" "if" "import" "in" "instanceof" "let" "new"
  "of" "return" "set" "static" "switch" "throw" "try" "typeof" "var" "void" "while" "with" "yield"
] @keyword

(comment) @comment

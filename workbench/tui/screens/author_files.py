"""Scripts and their files: opening, saving, noticing other programs, and what the next start finds again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from workflows_core.errors import Conflict, UsageError, WorkflowError

from ...drafts import AuthorSession, Draft, LaunchForm, OnDisk, OpenScript, VersionDraft, read_file
from ...scripts import script_file, write_starter
from . import author_dialogs as ask
from .author_editors import EditorColumn, OpenFile
from .author_scripts import Found, find_scripts, version_path
from .base import WorkbenchScreen

if TYPE_CHECKING:
    from workflows_core.model import Definition

    from ...workspace import Workspace


class Files:
    """The scripts and saved versions that are found and open. Paths are relative to the workspace.

    ``changed`` is called when a script was found, opened, saved or closed, so that lists can be drawn again.
    """

    def __init__(self, screen: WorkbenchScreen, column: EditorColumn, changed: Callable[[], None]) -> None:
        self._screen = screen
        self._column = column
        self._changed = changed
        self._restored = False
        self._looks = 0
        self.session = AuthorSession()
        self.found = Found()
        #: The saved versions, by name and newest first.
        self.versions: Sequence[Definition] = ()

    @property
    def _workspace(self) -> Workspace:
        return self._screen.context.workspace

    @property
    def _root(self) -> Path:
        return self._workspace.root

    # What a session remembers

    async def restore(self) -> None:
        """Open again what was open, with what was not saved; at the first start the first script there is."""
        if self._restored:
            return
        self.session = AuthorSession.load(self._screen.context.settings.session.get("author"))
        self._take_over()
        await self.find()
        for remembered in self.session.open:
            await self._reopen(remembered)
        wanted = self._column.file_of(Path(self.session.current or ""))
        if wanted is not None and wanted is not self._column.current:
            self._column.show(wanted)
        if not self._column.files and self.found.scripts:
            await self.open(self.found.scripts[0])
        self._restored = True

    def _take_over(self) -> None:
        """Take in what ended applications left unsaved. Theirs is deleted only once it is written here."""
        store = self._screen.context.settings.session
        try:
            for left in store.left():
                other = AuthorSession.load(left.get("author"))
                kept = other.open = self.session.absorb(other)
                store.set("author", self.session.dump())
                store.save()
                if kept:
                    left.set("author", other.dump())
                    left.save()
                left.let_go(delete=not kept)
                for item in kept:
                    self._screen.workbench.notice(
                        f"{item.path} has another unsaved text, from another application. "
                        "It is kept, and opens at a start after this one is saved or discarded.",
                        severity="warning",
                    )
        except OSError as error:
            self._screen.workbench.notice(f"The session cannot be remembered: {error}", severity="warning")

    async def _reopen(self, remembered: OpenScript) -> None:
        path = Path(remembered.path)
        if remembered.version is not None:
            name, _, version = remembered.version.rpartition("@")
            file = await self._column.open(path, VersionDraft(self._root, name, version))
            if remembered.unsaved:
                file.editor.load_text(remembered.unsaved)
                file.draft.text = remembered.unsaved
            await self.load(file)
            file.editor.go_to(remembered.line, remembered.column)
            return
        try:
            draft = await asyncio.to_thread(Draft.open, self._root / path)
        except WorkflowError as error:
            if remembered.unsaved is None:
                return  # the script is gone, and nothing that was not in it
            draft = Draft(self._root / path, text=remembered.unsaved)
            self._screen.workbench.notice(f"{error}. Its unsaved text is open again.", severity="warning")
        file = await self._column.open(path, draft, unsaved=remembered.unsaved)
        file.editor.go_to(remembered.line, remembered.column)

    def remember(self) -> None:
        """Write down what is open, with what is not saved."""
        if not self._restored:
            return
        session, current = self.session, self._column.current
        session.open = [
            OpenScript(
                path=str(file.path),
                line=file.editor.cursor_location[0] + 1,
                column=file.editor.cursor_location[1] + 1,
                unsaved=file.draft.text if file.draft.dirty else None,
                version=file.draft.definition if isinstance(file.draft, VersionDraft) else None,
            )
            for file in self._column.files
        ]
        session.current = str(current.path) if current is not None else None
        store = self._screen.context.settings.session
        store.set("author", session.dump())
        try:
            store.save()
        except OSError as error:
            self._screen.workbench.notice(f"The session cannot be remembered: {error}", severity="warning")

    # Finding and opening

    async def find(self) -> None:
        """Look again which scripts and stub sets there are."""
        async with self._screen.busy("looking for scripts"):
            self.found = await asyncio.to_thread(find_scripts, self._root)
        self._changed()

    async def look_for_scripts(self) -> None:
        """List what other programs wrote or removed, at every third call: a large workspace takes a while."""
        self._looks += 1
        if self._looks % 3 == 0:
            found = await asyncio.to_thread(find_scripts, self._root)
            if found != self.found:
                self.found = found
                self._changed()

    async def find_versions(self) -> None:
        """Look again which versions are saved, and load those that are open and could not be loaded before."""
        try:
            async with self._screen.busy("reading the library"):
                saved = await self._screen.context.client.library()
        except WorkflowError as error:
            self._screen.workbench.failure(error)
        else:
            # The same version of two owners is one script.
            self.versions = tuple({version_path(item): item for item in saved}.values())
        for file in self._column.files:
            await self.load(file)
        self._changed()

    async def open_version(self, version: Definition) -> OpenFile:
        """Show a saved version; one that cannot be loaded is open too, and says why."""
        path = version_path(version)
        file = self._column.file_of(path)
        if file is None:
            draft = VersionDraft(self._root, version.name, version.version)
            file = await self._column.open(path, draft)
            await self.load(file)
        self._column.show(file)
        return file

    async def load(self, file: OpenFile) -> None:
        """Load the script of an open version where it is not loaded; ``failure`` of its draft says why it is not."""
        draft = file.draft
        if not isinstance(draft, VersionDraft) or draft.saved is not None:
            return
        try:
            async with self._screen.busy("reading the version"):
                _, script = await self._screen.context.client.definition(draft.name, draft.version)
            draft.load(script)
        except WorkflowError as error:
            draft.failure = error.message
        if file.editor.text != draft.text:
            file.editor.load_text(draft.text)
        self._column.retitle()

    async def open(self, path: Path) -> OpenFile:
        """Show the script ``path``, opened where it was not. Raises UsageError or LimitExceeded."""
        file = self._column.file_of(path)
        if file is not None:
            self._column.show(file)
            return file
        async with self._screen.busy("reading the script"):
            draft = await asyncio.to_thread(Draft.open, self._root / path)
        return self._column.file_of(path) or await self._column.open(path, draft)

    async def new(self) -> OpenFile | None:
        """Ask for a name, write a first script and its stub set, and open it."""
        written: list[Path] = []

        async def write(name: str) -> None:
            async with self._screen.busy("writing the script"):
                written.extend(await asyncio.to_thread(write_starter, self._root, name))

        dialog = ask.NameDialog("" if self.found.scripts else "first", act=write)
        await self._screen.app.push_screen_wait(dialog)
        if not written:
            return None
        script, _stubs = written
        await self.find()
        return await self.open(script.relative_to(self._root))

    async def close(self, file: OpenFile) -> None:
        """Close a script; where it has unsaved changes, ask."""
        if file.draft.dirty:
            answer = await self._screen.app.push_screen_wait(ask.close_unsaved(str(file.path)))
            if answer not in ("save", "discard") or (answer == "save" and not await self.save(file)):
                return
        await self._column.close(file)
        self._changed()
        self.remember()

    # Saving, and other programs

    async def save(self, file: OpenFile) -> bool:
        """Save; where the file was changed elsewhere, ask. False where it was not saved. Raises StoreFailed."""
        if isinstance(file.draft, VersionDraft):
            return await self._save_as(file, file.draft)
        try:
            async with self._screen.busy("saving"):
                await asyncio.to_thread(file.draft.save)
        except Conflict:
            answer = await self._screen.app.push_screen_wait(ask.changed_on_disk(str(file.path)))
            if answer == "reload":
                await self._reload(file)
            if answer != "replace":
                return False
            async with self._screen.busy("saving"):
                await asyncio.to_thread(file.draft.save, overwrite=True)
        self._settled(file)
        self.remember()
        return True

    async def _save_as(self, file: OpenFile, draft: VersionDraft) -> bool:
        """Write what an opened version was made into to a new script file. Raises UsageError."""
        if not draft.dirty:
            raise UsageError(
                f"{draft.label} never changes and is kept in the library; there is nothing to save"
            )
        written: list[tuple[Path, Draft]] = []

        async def write(name: str) -> None:
            path = Path(script_file(name))
            async with self._screen.busy("saving"):
                written.append((path, await asyncio.to_thread(draft.save_as, self._root / path)))

        dialog = ask.NameDialog(
            draft.name,
            title="Save as a script",
            text="Writes NAME.workflow.js. No file is replaced.",
            act=write,
        )
        await self._screen.app.push_screen_wait(dialog)
        if not written:
            return False
        path, file.draft = written[0]
        self.session.forms[str(path)] = self.session.forms.get(str(file.path), LaunchForm())
        file.path = path
        await self.find()
        self._settled(file)
        self.remember()
        return True

    async def _reload(self, file: OpenFile) -> None:
        reading = await asyncio.to_thread(read_file, file.draft.path)
        if file not in self._column.files:
            return  # closed meanwhile
        file.draft.accept(reading)
        file.editor.become(reading.text)
        self._settled(file)

    def _settled(self, file: OpenFile) -> None:
        file.told = OnDisk.SAME
        self._column.retitle()
        self._changed()

    async def look_at_disk(self) -> None:
        """Reload the shown script where another program changed it; with unsaved changes only say so."""
        file = self._column.current
        if file is None or isinstance(file.draft, VersionDraft):
            return
        found = await asyncio.to_thread(file.draft.on_disk)
        if found is OnDisk.CHANGED and not file.draft.dirty:
            await self._reload(file)
            self._screen.workbench.notice(f"{file.path} was changed by another program and is loaded again.")
        elif found is not file.told:
            file.told = found
            self._column.retitle()
            if found is OnDisk.CHANGED:
                self._screen.workbench.notice(
                    f"{file.path} was changed by another program; what stands here is not saved.",
                    severity="warning",
                )

    async def may_leave(self) -> bool:
        """Ask about unsaved scripts before the application is left; True: leave."""
        self.remember()
        dirty = [file for file in self._column.files if file.draft.dirty]
        if not dirty:
            return True
        dialog = ask.leave_unsaved([str(file.path) for file in dirty])
        answer = await self._screen.app.push_screen_wait(dialog)
        if answer == "save":
            return all([await self.save(file) for file in dirty])
        return answer == "leave"

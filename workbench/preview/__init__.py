"""Pictures of images and PDF pages, drawn by a limited process of its own.

A decoder that is given hostile bytes may crash, hang or take all memory: here that ends the process, never the
workbench. The process has no network to need, can write no file, and gives back sizes, a few facts and pixels.
"""

from .process import Picture, Preview, PreviewFailed, can_preview, render

__all__ = ["Picture", "Preview", "PreviewFailed", "can_preview", "render"]

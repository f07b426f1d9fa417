"""One incident as a document: a single HTML file, Markdown, JSON, or a Perfetto trace."""

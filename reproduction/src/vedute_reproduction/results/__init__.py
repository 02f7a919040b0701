"""What each experiment leaves in its folder: a Markdown table, tidy lines, figures."""

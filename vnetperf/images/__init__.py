"""Guest images: built here from the distribution's packages, kept by their content, checked."""

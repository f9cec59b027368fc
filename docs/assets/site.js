// A page opened from the disk may not fetch the search index: the field is hidden there instead of failing.
if (location.protocol === "file:") document.documentElement.classList.add("from-disk");

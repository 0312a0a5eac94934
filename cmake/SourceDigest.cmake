# cmake -DROOT=folder -DFILES=a,b,... -DNAME=kName -DHEADER=path -DOUTPUT=x.cc -P SourceDigest.cmake
#
# Writes OUTPUT, which defines the constant NAME, declared in HEADER: the first 64 bits of a SHA-256
# of the files, whose names are relative to ROOT. Equal sources give equal digests on all machines.
string(REPLACE "," ";" files "${FILES}")
set(sums "")
foreach(file ${files})
  file(SHA256 ${ROOT}/${file} sum)
  string(APPEND sums "${file} ${sum}\n")
endforeach()
string(SHA256 digest "${sums}")
string(SUBSTRING ${digest} 0 16 digest)
file(WRITE ${OUTPUT}
  "#include \"${HEADER}\"\n\nconst std::uint64_t tally::server::${NAME} = 0x${digest};\n")
